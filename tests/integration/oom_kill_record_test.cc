// SPDX-License-Identifier: Apache-2.0
// A real OOM kill as the BPF programs report it: victim, its memory, the allocating process, and
// the cgroup at its limit. Where fentry is permitted, the kernel's own figures are included and
// compared with the derived ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/parse.h"
#include "integration/bpf_events.h"
#include "kernel/bpf_programs.h"
#include "sources/process_text.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using kernel::BpfPrograms;

std::uint64_t id_of(const ScratchCgroup& scratch, const std::string& path) {
  struct stat status {};
  if (stat(scratch.directory(path).c_str(), &status) != 0) throw std::runtime_error(path);
  return status.st_ino;
}

// Waits for the kills of `count` processes of `cgroup`, in order.
std::vector<abi_oom_kill> wait_kills(BpfPrograms& programs, std::uint64_t cgroup,
                                     std::size_t count) {
  std::vector<abi_oom_kill> kills;
  while (kills.size() < count) {
    pollfd ready{programs.ring_fd(), POLLIN, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
    if (poll(&ready, 1, static_cast<int>(ms)) != 1) break;
    programs.drain([&](const abi_event& event) {
      const abi_oom_kill* kill = abi_oom_kill_of(&event);
      if (kill != nullptr && event.cgroup == cgroup) kills.push_back(*kill);
    });
  }
  EXPECT_EQ(kills.size(), count);
  kills.resize(count);
  return kills;
}

// Field 22 of /proc/PID/stat, in clock ticks.
std::uint64_t start_ticks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  std::string_view rest = std::string_view(line).substr(line.rfind(')') + 1);
  std::string_view word;
  for (int field = 3; field <= 22; ++field) word = next_word(rest);
  return parse_u64(word).value();
}

// What a child of this process inherits, and what is not charged to the child.
Bytes inherited() {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto status = sources::parse_status_text(read_text("/proc/self/status"), page);
  return Bytes{status.value().memory.value().anon * page};
}

// `held`: the charged amount.
void expect_victim(const abi_oom_kill& kill, pid_t pid, std::uint64_t ticks, Bytes held,
                   Bytes from_parent) {
  EXPECT_EQ(kill.event.tgid, pid);
  EXPECT_TRUE(kill.flags & ABI_OOM_MEMORY);
  const auto per_tick = 1'000'000'000ULL / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(kill.start_ns / per_tick, ticks);
  // Up to one batch per CPU is not counted, here and in what it inherits.
  const Bytes anon{kill.counted[ABI_TASK_ANON] * sysconf(_SC_PAGESIZE)};
  EXPECT_GE(anon, held - mib(2));
  EXPECT_LE(anon, held + from_parent + mib(4));
  EXPECT_GT(kill.page_table_bytes, 0U);
}

TEST(OomKillRecord, NamesTheLimitedCgroupAndTheAllocatingProcess) {
  // Once with the kernel's own figures, where available, and once without.
  for (const bool exact : {true, false}) {
    const auto programs = load_programs(exact ? FeatureSet() : set_of({Feature::bpf_oom_path}));
    ScratchCgroup scratch;
    const std::string outer = scratch.child("outer");
    const std::string inner = scratch.child("outer/inner");
    scratch.limit(outer, mib(48));
    scratch.limit(inner, mib(96));
    const Bytes from_us = inherited();
    Hog hog(scratch, inner, mib(16));
    const std::uint64_t ticks = start_ticks(hog.pid());
    hog.grow(mib(64));
    const abi_oom_kill kill = wait_kills(*programs, id_of(scratch, inner), 1).at(0);
    ASSERT_TRUE(hog.child().wait_exit());

    expect_victim(kill, hog.pid(), ticks, mib(48), from_us);
    EXPECT_EQ(kill.domain, id_of(scratch, outer));
    EXPECT_EQ(kill.domain_limit, static_cast<std::uint64_t>(mib(48).count));
    EXPECT_NEAR(static_cast<double>(kill.domain_usage), static_cast<double>(mib(48).count),
                static_cast<double>(kib(256).count));
    EXPECT_EQ((kill.flags & ABI_OOM_DOMAIN_V1) != 0, mounts().v1);
    EXPECT_EQ(kill.killer_tgid, hog.pid());
    EXPECT_EQ(kill.killer_start_ns, kill.start_ns);
    EXPECT_STREQ(kill.killer_comm, kill.event.comm);
    EXPECT_EQ(kill.group, 0U);
    EXPECT_FALSE(kill.flags & ABI_OOM_WITH_ANOTHER);
    const bool reported = exact && programs->in_use(Feature::bpf_oom_path);
    EXPECT_EQ((kill.flags & ABI_OOM_EXACT) != 0, reported);
    if (!reported) continue;
    EXPECT_EQ(kill.constraint, ABI_OOM_CONSTRAINT_MEMCG);
    EXPECT_EQ(kill.chosen_tgid, hog.pid());
    EXPECT_EQ(static_cast<long>(kill.total_pages), mib(48).count / sysconf(_SC_PAGESIZE));
    EXPECT_TRUE(kill.flags & ABI_OOM_POINTS);
    EXPECT_GE(kill.points, kill.counted[ABI_TASK_ANON]);
  }
}

// A tenant decides how deep its tree is.
TEST(OomKillRecord, ADeepTreeDoesNotHideTheLimitedCgroup) {
  for (const bool exact : {true, false}) {
    const auto programs = load_programs(exact ? FeatureSet() : set_of({Feature::bpf_oom_path}));
    ScratchCgroup scratch;
    const std::string outer = scratch.child("outer");
    std::string inner = "outer";
    for (int i = 0; i < 60; ++i) inner += "/l";
    inner = scratch.child(inner);
    scratch.limit(outer, mib(48));
    if (!mounts().v1) scratch.write(outer, "memory.oom.group", "1");
    Hog hog(scratch, inner, mib(16));
    hog.grow(mib(64));
    const abi_oom_kill kill = wait_kills(*programs, id_of(scratch, inner), 1).at(0);
    EXPECT_EQ(kill.event.tgid, hog.pid());
    EXPECT_EQ(kill.domain, id_of(scratch, outer));
    EXPECT_EQ(kill.domain_limit, static_cast<std::uint64_t>(mib(48).count));
    EXPECT_EQ(kill.group, mounts().v1 ? 0U : id_of(scratch, outer));
    ASSERT_TRUE(hog.child().wait_exit());
  }
}

TEST(OomKillRecord, ThoseOfAGroupGoWithTheChosen) {
  if (mounts().v1) GTEST_SKIP() << "not applicable: memory.oom.group is of v2";
  const auto programs = load_programs();
  ScratchCgroup scratch;
  const std::string group = scratch.child("group");
  const std::string inner = scratch.child("group/inner");
  scratch.limit(group, mib(48));
  scratch.write(group, "memory.oom.group", "1");
  const Hog small(scratch, inner, mib(4));
  Hog large(scratch, inner, mib(16));
  large.grow(mib(64));
  const auto kills = wait_kills(*programs, id_of(scratch, inner), 2);
  EXPECT_EQ(kills[0].event.tgid, large.pid());
  EXPECT_EQ(kills[1].event.tgid, small.pid());
  for (const abi_oom_kill& kill : kills) {
    EXPECT_EQ(kill.group, id_of(scratch, group));
    EXPECT_EQ(kill.domain, id_of(scratch, group));
    EXPECT_EQ(kill.killer_tgid, large.pid());
  }
  if (!programs->in_use(Feature::bpf_oom_path)) return;
  EXPECT_FALSE(kills[0].flags & ABI_OOM_WITH_ANOTHER);
  EXPECT_TRUE(kills[1].flags & ABI_OOM_WITH_ANOTHER);
  EXPECT_EQ(kills[1].chosen_tgid, large.pid());
}

}  // namespace
}  // namespace forestall::test
