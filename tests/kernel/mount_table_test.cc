// SPDX-License-Identifier: Apache-2.0
#include "kernel/mount_table.h"

#include <gtest/gtest.h>

#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

// Lines as the kernel writes them, with optional fields, escapes and mounts over mounts.
constexpr const char* kTable =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "30 22 0:26 / /sys rw,nosuid master:3 propagate_from:2 - sysfs sysfs rw\n"
    "50 22 0:40 / /var/lib/kubelet rw - xfs /dev/vdb rw\n"
    "51 50 0:41 / /var/lib/kubelet/pods/a/volumes/v rw - fuse.sshfs host:/x rw\n"
    "52 22 0:42 / /mnt/with\\040blank rw - nfs4 server:/export rw\n"
    "53 22 0:43 / /srv rw - btrfs /dev/vdc rw\n"
    "54 53 0:44 / /srv rw - nfs server:/over rw\n"
    "garbage\n";

TEST(MountedType, TheLastOfTheDeepestMountsCounts) {
  EXPECT_EQ(mounted_type(kTable, "/"), "ext4");
  EXPECT_EQ(mounted_type(kTable, "/var/lib"), "ext4");
  EXPECT_EQ(mounted_type(kTable, "/var/lib/kubelet"), "xfs");
  EXPECT_EQ(mounted_type(kTable, "/var/lib/kubelet2"), "ext4") << "a prefix is not a parent";
  EXPECT_EQ(mounted_type(kTable, "/var/lib/kubelet/pods/a/volumes/v/x"), "fuse.sshfs");
  EXPECT_EQ(mounted_type(kTable, "/mnt/with blank/x"), "nfs4");
  EXPECT_EQ(mounted_type(kTable, "/srv/data"), "nfs") << "mounted over the btrfs";
  EXPECT_EQ(mounted_type("", "/"), std::nullopt);
  EXPECT_EQ(mounted_type("22 1 254:0 / /a", "/a"), std::nullopt);
  EXPECT_EQ(mounted_type(" - ext4", "/"), std::nullopt);
}

TEST(MountedType, ReadsTheTableOfThisMachine) {
  EXPECT_EQ(mounted_type(test::read_text("/proc/self/mountinfo"), "/proc/self"), "proc");
}

TEST(ProtectsRecursively, ByTheOptionOfTheCgroupFilesystem) {
  const std::string other = "22 1 0:20 / /sys rw - sysfs memory_recursiveprot rw\n";
  const std::string mount = "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";
  EXPECT_FALSE(protects_recursively(""));
  EXPECT_FALSE(protects_recursively(other + mount + ",nsdelegate\n"));
  EXPECT_TRUE(protects_recursively(other + mount + ",nsdelegate,memory_recursiveprot\n"));
  EXPECT_TRUE(protects_recursively(mount + ",memory_recursiveprot,nsdelegate"));
}

TEST(AnswersLocally, ByNameAndByMagic) {
  for (const char* type : {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs"}) {
    EXPECT_TRUE(answers_locally(type)) << type;
  }
  for (const char* type : {"nfs", "nfs4", "fuse", "fuse.sshfs", "fuseblk", "cifs", "9p", "ceph"}) {
    EXPECT_FALSE(answers_locally(type)) << type;
  }
  EXPECT_TRUE(answers_locally(0xEF53L));
  EXPECT_FALSE(answers_locally(0x6969L));
  EXPECT_FALSE(answers_locally(0x65735546L));
}

}  // namespace
}  // namespace forestall::kernel
