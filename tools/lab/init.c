// SPDX-License-Identifier: GPL-2.0
/*
 * The lab's PID 1: mount what a test may ask for, load KVM if it is a module, run the
 * command in /lab.argv (NUL-terminated words), report how it ended, power off.
 *
 * The kernel keeps ttyS0 for its console.  The command writes to ttyS1 (stdout)
 * and ttyS2 (stderr), and init writes "exit N" or "signal N" to ttyS3: nothing
 * that a command or the kernel prints can be taken for a result.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_WORDS 4096

static const struct {
	const char *type, *dir, *options;
	int required;
} mounts[] = {
	{ "devtmpfs",  "/dev",                NULL,        1 },
	{ "proc",      "/proc",               NULL,        1 },
	{ "sysfs",     "/sys",                NULL,        1 },
	{ "tmpfs",     "/tmp",                "mode=1777", 1 },
	{ "debugfs",   "/sys/kernel/debug",   NULL,        0 },
	{ "cgroup2",   "/sys/fs/cgroup",      NULL,        0 },
	{ "tmpfs",     "/dev/shm",            "mode=1777", 0 },
	{ "hugetlbfs", "/dev/hugepages",      NULL,        0 },
};

/* The kernel panics when PID 1 exits, which ends the machine: say why first. */
static void die(const char *what)
{
	fprintf(stderr, "lab init: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void mount_all(void)
{
	size_t i;

	for (i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i].dir, 0755);
		if (mount(mounts[i].type, mounts[i].dir, mounts[i].type, 0,
			  mounts[i].options) && mounts[i].required)
			die(mounts[i].dir);
	}
}

/* A packaged kernel has KVM as a module, whose options modprobe takes from /proc/cmdline. */
static void load_kvm(void)
{
	static char cpuinfo[4096];
	int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC), status = 0;
	const char *module;
	pid_t child;

	if (access("/lib/modules", F_OK))
		return;
	if (fd < 0 || read(fd, cpuinfo, sizeof(cpuinfo) - 1) <= 0)
		die("/proc/cpuinfo");
	close(fd);
	if (strstr(cpuinfo, " vmx "))
		module = "kvm_intel";
	else if (strstr(cpuinfo, " svm "))
		module = "kvm_amd";
	else
		return;

	child = fork();
	if (!child) {
		execl("/bin/modprobe", "modprobe", module, NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status) {
		errno = ENODEV;
		die(module);
	}
}

/* Raw, so that bytes arrive as they were written. */
static int open_channel(const char *path)
{
	struct termios t;
	int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || tcgetattr(fd, &t))
		die(path);
	cfmakeraw(&t);
	t.c_cflag |= CLOCAL;
	cfsetspeed(&t, B115200);
	if (tcsetattr(fd, TCSANOW, &t))
		die(path);
	return fd;
}

static char **read_words(const char *path)
{
	static char buf[1 << 20], *words[MAX_WORDS + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC), n = 0;
	ssize_t len = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	char *p;

	if (len <= 0)
		die(path);
	close(fd);
	for (p = buf; p < buf + len && n < MAX_WORDS; p += strlen(p) + 1)
		words[n++] = p;
	return words;
}

static void exec_command(char **argv, int out, int err)
{
	int null = open("/dev/null", O_RDONLY);

	setsid();
	dup2(null, 0);
	dup2(out, 1);
	dup2(err, 2);
	if (null > 2)
		close(null);
	if (chdir("/lab")) {
		perror("/lab");
		_exit(126);
	}
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

int main(void)
{
	int out, err, result, status;
	pid_t child;
	char **argv;

	mount_all();
	load_kvm();
	out = open_channel("/dev/ttyS1");
	err = open_channel("/dev/ttyS2");
	result = open_channel("/dev/ttyS3");
	argv = read_words("/lab.argv");

	setenv("PATH", "/lab:/bin", 1);
	setenv("HOME", "/lab", 1);
	child = fork();
	if (child < 0)
		die("fork");
	if (!child)
		exec_command(argv, out, err);

	while (waitpid(-1, &status, 0) != child)
		;

	/* What the command left behind must not write after the result. */
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;

	tcdrain(out);
	tcdrain(err);
	if (WIFEXITED(status))
		dprintf(result, "exit %d\n", WEXITSTATUS(status));
	else
		dprintf(result, "signal %d\n", WTERMSIG(status));
	tcdrain(result);

	reboot(RB_POWER_OFF);
	die("power off");
}
