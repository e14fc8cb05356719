// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory_kinds.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace forestall::kernel {
namespace {

TEST(MemoryKinds, SharedMemoryIsNoPageCache) {
  const auto v2 =
      parse_memory_kinds("anon 1000\nfile 700\nkernel 90\nshmem 500\ninactive_file 20\nslab 80\n");
  ASSERT_TRUE(v2) << v2.error().text();
  EXPECT_EQ(*v2, (MemoryKinds{Bytes{1000}, Bytes{200}, Bytes{500}, Bytes{90}}));
  const auto v1 = parse_memory_kinds(
      "cache 1\nrss 2\nshmem 3\ninactive_file 4\nhierarchical_memory_limit 9\n"
      "total_cache 700\ntotal_rss 1000\ntotal_shmem 500\ntotal_inactive_file 40\n");
  ASSERT_TRUE(v1) << v1.error().text();
  EXPECT_EQ(*v1, (MemoryKinds{Bytes{1000}, Bytes{200}, Bytes{500}, std::nullopt}));
}

TEST(MemoryKinds, WhatIsNotReportedIsUnknown) {
  EXPECT_EQ(*parse_memory_kinds("inactive_file 4\n"), MemoryKinds{});
  EXPECT_EQ(parse_memory_kinds("file 7\n")->file, Bytes{7});
  EXPECT_FALSE(parse_memory_kinds("shmem x\n"));
}

TEST(MemoryKinds, OfTheNode) {
  const auto node =
      parse_node_kinds("MemTotal: 9 kB\nCached: 5 kB\nAnonPages: 3 kB\nShmem: 2 kB\nSlab: 4 kB\n");
  ASSERT_TRUE(node) << node.error().text();
  EXPECT_EQ(*node, (MemoryKinds{kib(3), kib(3), kib(2), kib(4)}));
}

TEST(MemoryKinds, ReadsThisHost) {
  const auto node = node_memory_kinds();
  ASSERT_TRUE(node) << node.error().text();
  EXPECT_GT(node->anon, Bytes{0});
  EXPECT_GT(node->kernel, Bytes{0});
  const auto tree = CgroupTree::discover();
  ASSERT_TRUE(tree) << tree.error().text();
  const auto own = tree->path_of(getpid());
  ASSERT_TRUE(own) << own.error().text();
  const auto cgroup = tree->open(*own);
  ASSERT_TRUE(cgroup) << cgroup.error().text();
  const auto kinds = memory_kinds(*cgroup, tree->version());
  ASSERT_TRUE(kinds) << kinds.error().text();
  EXPECT_TRUE(kinds->anon && kinds->file);
}

}  // namespace
}  // namespace forestall::kernel
