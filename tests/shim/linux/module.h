/* SPDX-License-Identifier: GPL-2.0 */
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
