// SPDX-License-Identifier: Apache-2.0
// What the agent keeps in memory: little, but everything that a kill needs. Meaningful on a host
// whose files are on a disk; in a guest all files are in memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"
#include "kernel/scheduling.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::agent_residency_test {
namespace {

#if !defined(__SANITIZE_ADDRESS__)
constexpr Bytes kLimit = mib(192);
constexpr Bytes kThreshold = mib(64);
// The agent under test writes records as JSON, which takes 3 MiB of code and descriptors;
// overhead_bench measures a service. In guests all files are in memory, and the kernel maps 64 KiB
// around each fault, which can add 5 MiB. Without the measures under test, the agent had 32 MiB.
constexpr std::int64_t kResidentMaxKib = 18 * 1024;

// Faults that had to wait for a disk, of all threads but those that copy records for gRPC clients
// after a kill, and write them as JSON: nothing waits for them.
std::uint64_t major_faults(pid_t pid) {
  std::uint64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    const std::string name = read_text(task.path() / "comm");
    if (name == "forestall-grpc\n" || name == "records\n") continue;
    const std::string stat = read_text(task.path() / "stat");
    // state is the first field after the name, majflt the tenth.
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));
    std::string field;
    for (int i = 0; i < 10; ++i) fields >> field;
    sum += std::stoull(field);
  }
  return sum;
}

// Drops the pages of a file from the page cache, except mapped ones, as the kernel does when memory
// runs out.
void forget_pages_of(const std::string& file) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd) << file;
  ASSERT_EQ(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
}

std::string config_of(const ScratchCgroup& scratch) {
  return fmt::format(
      "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n"
      "watch: [{{cgroup: {0}, available: {1}Mi}}]\nworkloads: [{{cgroup: {0}/leak, name: leak}}]\n",
      scratch.path(), kThreshold.count >> 20);
}

TEST(AgentResidency, KillsWithoutReadingAnyCodeFromDisk) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  const auto leak = scratch.child("leak");
  Hog hog(scratch, leak, mib(8));
  AgentRun agent(config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const pid_t pid = agent.process().pid();
  if (agent.process().log().find("memory-lock=in-use") == std::string::npos) {
    GTEST_SKIP() << "not applicable: mlockall is refused here; the guests of vmtests permit it";
  }
  forget_pages_of(fmt::format("/proc/{}/exe", pid));
  const std::uint64_t before = major_faults(pid);
  hog.leak(kLimit - kThreshold + mib(8) - scratch.usage(scratch.path()), mib(2));
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().name(), "leak");
  EXPECT_EQ(major_faults(pid), before);
}

// statm is off by the kernel's per-CPU counters.
std::int64_t resident_kib(pid_t pid) {
  std::istringstream lines(read_text(fmt::format("/proc/{}/smaps_rollup", pid)));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Rss:")) return std::stoll(line.substr(4));
  }
  return -1;
}

TEST(AgentResidency, IsSmallWhenIdle) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  scratch.child("leak");
  AgentRun agent(config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const std::int64_t resident = resident_kib(agent.process().pid());
  EXPECT_GT(resident, 0);
  EXPECT_LT(resident, kResidentMaxKib);
}

// Else an open() near a line waits for an RCU grace period.
TEST(AgentResidency, HasRoomForDescriptorsFromTheStart) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  scratch.child("leak");
  AgentRun agent(config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  rlimit limit{};
  ASSERT_EQ(prlimit(agent.process().pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
  const std::string status = read_text(fmt::format("/proc/{}/status", agent.process().pid()));
  const std::string key = "FDSize:";
  ASSERT_NE(status.find(key), std::string::npos);
  EXPECT_GE(std::stoull(status.substr(status.find(key) + key.size())),
            std::min<std::uint64_t>(limit.rlim_cur, kernel::kDescriptorTable));
}
#endif

}  // namespace
}  // namespace forestall::test::agent_residency_test
