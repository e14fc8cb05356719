// SPDX-License-Identifier: Apache-2.0
// Lists of processes in trees that an unprivileged user shapes: deep, wide, partly unreadable. On
// plain directories, which may list any pid, and on scratch cgroups.
#include "kernel/cgroup_processes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "kernel/cgroup_descent.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CgroupDir open_group(const std::string& root, const std::string& path) {
  const UniqueFd fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return CgroupDir::open(fd.get(), path).value();
}

std::string levels(int count) {
  std::string path;
  for (int i = 0; i < count; ++i) path += (i == 0 ? "d" : "/d");
  return path;
}

// Regression: below 64 levels the whole list failed with ELOOP, and the next workload was killed.
TEST(ProcessList, CoversATreeOfAnyDepthWithFewDescriptors) {
  test::ScratchCgroup scratch;
  const std::string deep = scratch.child("victim/" + levels(200));
  const test::Hog top(scratch, scratch.child("victim/leaf"), mib(1));
  const test::Hog bottom(scratch, deep, mib(1));
  const auto group = open_group(test::mounts().memory, scratch.path() + "/victim");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlim_t used = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    used = std::max<rlim_t>(used, std::stoul(entry.path().filename()) + 1);
  }
  const rlimit little{used + 3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &little), 0);
  const auto list = list_processes(group);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(list.ok()) << list.error().text();
  EXPECT_FALSE(list->failure) << list->failure->text();
  EXPECT_THAT(list->pids, ::testing::UnorderedElementsAre(top.pid(), bottom.pid()));
}

TEST(ProcessList, PathsLongerThanPathMaxAreVisited) {
  const test::TempTree files{{"cgroup.procs", "11\n"}};
  constexpr int kLevels = 50;
  const std::string name(200, 'x');
  UniqueFd at(::open(files.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kLevels; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0755), 0);
    at.reset(::openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  const UniqueFd procs(::openat(at.get(), "cgroup.procs", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  ASSERT_EQ(::write(procs.get(), "12\n", 3), 3);
  const auto list = list_processes(open_group(files.path(), "/"));
  ASSERT_TRUE(list.ok()) << list.error().text();
  EXPECT_THAT(list->pids, ElementsAre(11, 12));
}

TEST(ProcessList, VisitsParentsFirstAndEachGroupOnce) {
  const test::TempTree files{
      {"a/b/c/cgroup.procs", ""}, {"a/b/d/", ""}, {"a/e/f/", ""}, {"g/", ""}};
  std::vector<std::string> visited;
  const auto all =
      visit_groups(open_group(files.path(), "/"), [&](const CgroupDir&, const std::string& path) {
        visited.push_back(path);
        return Result<void>();
      });
  ASSERT_TRUE(all.ok()) << all.error().text();
  EXPECT_THAT(visited, ::testing::UnorderedElementsAre("/", "/a", "/a/b", "/a/b/c", "/a/b/d",
                                                       "/a/e", "/a/e/f", "/g"));
  EXPECT_EQ(visited.front(), "/");
}

TEST(ProcessList, AnUnreadableGroupLeavesTheOthersListed) {
  const test::TempTree files{{"cgroup.procs", "11\n"},
                             {"bad/cgroup.procs/", ""},  // reading a directory fails
                             {"bad/below/cgroup.procs", "13\n"},
                             {"good/cgroup.procs", "12\n"}};
  const auto list = list_processes(open_group(files.path(), "/"));
  ASSERT_TRUE(list.ok()) << list.error().text();
  EXPECT_THAT(list->pids, ElementsAre(11, 12, 13));
  ASSERT_TRUE(list->failure);
  EXPECT_EQ(list->failure->code, EISDIR);
  EXPECT_THAT(list->failure->text(), HasSubstr("/bad"));
}

TEST(ProcessList, AProcessOfAnotherPidNamespaceIsReportedAndTheRestListed) {
  const test::TempTree files{{"cgroup.procs", "12\n0\n13\n"}};
  const auto list = list_processes(open_group(files.path(), "/"));
  ASSERT_TRUE(list.ok());
  EXPECT_THAT(list->pids, ElementsAre(12, 13));
  ASSERT_TRUE(list->failure);
  EXPECT_THAT(list->failure->text(), HasSubstr("pid namespace"));
}

// read_whole() refuses files above 1 MiB, which 150,000 processes fill.
TEST(ProcessList, HasNoBoundOnItsLength) {
  std::string text;
  constexpr pid_t kFirst = 1'000'000, kCount = 200'000;
  for (pid_t pid = kFirst; pid < kFirst + kCount; ++pid) text += std::to_string(pid) + "\n";
  const test::TempTree files{{"cgroup.procs", text}};
  const auto list = list_processes(open_group(files.path(), "/"));
  ASSERT_TRUE(list.ok());
  EXPECT_FALSE(list->failure);
  ASSERT_EQ(list->pids.size(), std::size_t{kCount});
  EXPECT_EQ(list->pids.back(), kFirst + kCount - 1);
}

TEST(ProcessList, ARemovedGroupIsAnError) {
  test::ScratchCgroup scratch;
  const std::string path = scratch.child("gone");
  const auto group = open_group(test::mounts().memory, path);
  scratch.remove_child(path);
  const auto list = list_processes(group);
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.error().code, ENODEV);
}

}  // namespace
}  // namespace forestall::kernel
