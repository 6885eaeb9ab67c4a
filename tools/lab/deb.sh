# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Debian's packages of a kernel, of any version that the archive which this machine uses
# has, and of other suites than its own. The machine's own packages and apt's lists
# stay as they are. Sourced after lib.sh.

# apt_open FOLDER KERNEL: read the lists of the suites that have KERNEL, for
# apt_private and what follows it; they and $apt, where packages are fetched to, go with
# this process. FOLDER is where the result will be, $apt is made next to it.
apt_open()
{
	local os codename targets main security suites suite uri

	os=$(sed -n 's/^ID=//p' /etc/os-release 2>/dev/null || :)
	[ "$os" = debian ] ||
		usage_die "this is not Debian, whose archive has the sources: set KDIR to a kernel tree of yours"
	room 1

	case $2 in
	6.1) suites="bookworm bookworm-security" ;;
	6.12) suites="bookworm-security trixie" ;;
	7.3) suites="trixie-backports" ;;
	esac

	# The archive's address is the one in use here; only the suite may be another.
	codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	targets=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages')
	main=$(awk -v s="$codename" '$2 == s || $2 ~ /^(old)*stable$/ { print $1; exit }' <<<"$targets")
	security=$(awk '$2 ~ /-security$/ { print $1; exit }' <<<"$targets")
	[ -n "$main" ] || die "apt has no source for $codename: see /etc/apt/sources.list"

	mkdir -p "$(dirname "$1")"
	apt=$(mktemp -d "$1.apt.XXXXXX")
	trap 'rm -rf "$apt"' EXIT
	trap 'exit 130' INT
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
	: >"$apt/status"
	for suite in $suites; do
		case $suite in
		*-security) uri=$security ;;
		*) uri=$main ;;
		esac
		[ -n "$uri" ] || continue
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
	done >"$apt/sources.list"
	step "reading the archive's lists of $suites (KDIR=DIR does without)" apt_private apt-get update
}

# apt_private COMMAND [ARG]...: an apt command on those lists.
apt_private()
{
	local command=$1 options
	shift

	options=(-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
		 -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
		 -o "Dir::State::Lists=$apt/lists" -o "Dir::State::status=$apt/status"
		 -o "Dir::Cache=$apt/cache" -o Acquire::Languages=none -o Acquire::Retries=2
		 -o APT::Update::Error-Mode=any)
	[ "$(id -u)" != 0 ] || options+=(-o APT::Sandbox::User=root)
	(cd "$apt" && exec "${leash[@]}" "$command" "${options[@]}" "$@")
}

# archive_has PACKAGE=VERSION
archive_has() { apt_private apt-cache show "$1" >/dev/null 2>&1; }

# newest_version PACKAGE: in these lists; nothing if they have none.
newest_version()
{
	apt_private apt-cache --no-all-versions show "$1" 2>/dev/null | sed -n 's/^Version: //p'
}

# unpacked FOLDER KERNEL PACKAGE=VERSION...: print the path of the cache's folder in
# which these packages are unpacked; fetch them if they are not.
unpacked()
(
	folder=$LAB_CACHE/package/$1
	[ ! -d "$folder" ] || { echo "$folder"; exit; }
	lock "$folder.lock"
	[ ! -d "$folder" ] || { echo "$folder"; exit; }
	apt_open "$folder" "$2"
	shift 2
	for package; do
		archive_has "$package" ||
			die "the archive no longer has ${package/=/ of version }: upgrade to a kernel that it has"
	done
	step "fetching $*" apt_private apt-get download "$@"
	mkdir "$apt/new"
	for package in "$apt"/*.deb; do
		dpkg -x "$package" "$apt/new" || die "can't unpack ${package##*/} into $LAB_CACHE: is the disk full?"
	done
	mv "$apt/new" "$folder"
	echo "$folder"
)

# source_version KERNEL: of the source package that the cache has for it.
source_version()
{
	local package

	package=$("$LAB/source" "$1") || exit
	package=${package%_all.deb}
	echo "${package##*_}"
}

# packaged_image KERNEL: print the path of the image of the packaged kernel for servers
# and desktops which is of the version of KERNEL's source; its modules are next to it, in lib/.
packaged_image()
(
	kernel=$1
	wanted=$(source_version "$kernel") || exit
	for image in "$LAB_CACHE/package"/linux-image-*"_$wanted/boot"/vmlinuz-*; do
		[ ! -e "$image" ] || { echo "$image"; exit; }
	done
	apt_open "$LAB_CACHE/package/linux-image" "$kernel"
	# As it is signed, if the archive has it so.
	name=$(apt_private apt-cache dumpavail | awk -v version="$wanted" '
		$1 == "Package:" { name = $2 }
		$1 == "Version:" && $2 == version && name ~ /^linux-image-[0-9.]+(\+[a-z0-9]+|-[0-9]+)?-amd64(-unsigned)?$/ {
			print name
		}' | sort -u | head -n 1)
	[ -n "$name" ] || die "the archive has no linux-image of version $wanted: 'tools/lab/source -u $kernel' takes its newest"
	image=$(unpacked "${name}_$wanted" "$kernel" "$name=$wanted") || exit
	echo "$image"/boot/vmlinuz-*
)

# project_version: of this clone's commit, such that a later one is higher.
project_version()
{
	printf '0.%s.%s\n' "$(TZ=UTC git -C "$TOP" log -1 --format=%cd --date=format-local:%Y%m%d.%H%M%S)" \
		"g$(git -C "$TOP" describe --always --dirty=.dirty --abbrev=12 --exclude='*')"
}

# dkms_source FOLDER: what builds the modules, here and in the package.
dkms_source()
{
	local tree other

	tree=$("$LAB/tree" 6.1) || exit
	other=$(git -C "$tree" diff --name-only base -- arch/x86 include virt ':!arch/x86/kvm' ':!virt/kvm' | head -n 1)
	[ -z "$other" ] || die "the series edits $other, which belongs to the packaged kernel: the modules can't have it"
	mkdir -p "$1"
	cp "$TOP"/tools/dkms/{build,suits} "$1"
	git -C "$tree" -c core.abbrev=12 diff base -- 'arch/x86/kvm/*.[chS]' arch/x86/kvm/Makefile virt/kvm >"$1/series.patch"
	project_version >"$1/version"
}
