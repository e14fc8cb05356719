// SPDX-License-Identifier: Apache-2.0
#include "kernel/process_ref.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include "support/child.h"

namespace forestall::kernel {
namespace {

using test::Child;

int live() {
  for (;;) pause();
  return 0;
}

// A stat line of a process with this name; parent 7, flags `flags`, start time 4242.
std::string stat_of(const std::string& name, const std::string& flags = "4194560") {
  return "123 (" + name + ") S 7 1 1 0 -1 " + flags +
         " 10 11 12 13 14 15 16 17 20 0 1 0 4242 1000000 50 18446744073709551615 0 0 0\n";
}

TEST(ParseProcessStat, FindsTheFieldsWithAnyName) {
  for (const char* name : {"sleep", "a b", ")", "((", ") S 9 9 9", "x)\ny (z", "", "\n\n)\n"}) {
    const auto stat = parse_process_stat(stat_of(name));
    ASSERT_TRUE(stat.ok()) << name << ": " << stat.error().text();
    EXPECT_EQ(stat->parent, 7) << name;
    EXPECT_EQ(stat->start_ticks, 4242U) << name;
    EXPECT_FALSE(stat->kernel_thread) << name;
  }
}

TEST(ParseProcessStat, RecognizesAKernelThreadByItsFlag) {
  const auto stat = parse_process_stat(stat_of("kworker/0:1", "69238880"));
  ASSERT_TRUE(stat.ok());
  EXPECT_TRUE(stat->kernel_thread);
}

TEST(ParseProcessStat, RejectsInvalidText) {
  const std::string whole = stat_of("sleep");
  for (const std::string& text :
       {std::string(), std::string("123 sleep S 7"), std::string("123 (sleep"),
        std::string("123 (sleep)"), std::string("123 (sleep) S x 1 1 0 -1 0"),
        whole.substr(0, whole.find("4242")), whole.substr(0, 30),
        std::string("1 (a) S 7 1 1 0 -1 flags 1 1 1 1 1 1 1 1 1 1 1 1 5")}) {
    EXPECT_FALSE(parse_process_stat(text).ok()) << text;
  }
}

TEST(ReadProcessStat, AgreesWithTheKernelAboutThisProcess) {
  const auto stat = read_process_stat(getpid());
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->parent, getppid());
  EXPECT_FALSE(stat->kernel_thread);
  EXPECT_GT(stat->start_ticks, 0U);
  EXPECT_EQ(read_process_id(getpid()).value(), (ProcessId{getpid(), stat->start_ticks}));
}

TEST(ReadProcessStat, ReturnsEsrchWithoutSuchAProcess) {
  pid_t gone = 0;
  {
    const Child child([] { return 0; });
    gone = child.pid();
  }
  EXPECT_EQ(read_process_stat(gone).error().code, ESRCH);
  EXPECT_EQ(ProcessRef::open(gone).error().code, ESRCH);
}

TEST(ProcessRef, ReadsThroughAHostileName) {
  Child child([] {
    prctl(PR_SET_NAME, ") 1 (\n2 3", 0, 0, 0);
    return live();
  });
  const auto plain = read_process_id(child.pid());
  const auto ref = ProcessRef::open(child.pid());
  ASSERT_TRUE(ref.ok());
  EXPECT_EQ(ref->id(), *plain);
}

TEST(ProcessRef, SignalsAndReportsTheExit) {
  Child child(live);
  const auto ref = ProcessRef::open(child.pid());
  ASSERT_TRUE(ref.ok());
  EXPECT_FALSE(ref->exited());
  EXPECT_FALSE(ref->kernel_thread());
  EXPECT_EQ(ref->release_memory().error().code, EINVAL) << "it is not dying yet";
  EXPECT_TRUE(ref->send_signal(SIGKILL).ok());
  ASSERT_TRUE(child.wait_exit());
  EXPECT_TRUE(ref->exited());
  child.reap();
  EXPECT_EQ(ref->send_signal(SIGKILL).error().code, ESRCH);
  EXPECT_EQ(ref->release_memory().error().code, ESRCH);
}

// No kill of the agent depends on which processes share memory: a protected process that shares the
// memory of a victim survives (unlike a kill by the kernel's OOM killer).
TEST(ProcessRef, AProcessThatSharesTheMemoryOfAVictimSurvives) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const UniqueFd reader(pipe_ends[0]);
  UniqueFd writer(pipe_ends[1]);
  Child kept([&] {
    static std::array<char, 64 << 10> stack;
    const auto stay = [](void*) { return live(); };
    const pid_t twin = clone(stay, stack.data() + stack.size(), CLONE_VM | SIGCHLD, nullptr);
    if (write(writer.get(), &twin, sizeof twin) != sizeof twin) return 1;
    return live();
  });
  pid_t twin = 0;
  ASSERT_EQ(read(reader.get(), &twin, sizeof twin), static_cast<ssize_t>(sizeof twin));
  ASSERT_GT(twin, 0);
  ASSERT_EQ(syscall(SYS_kcmp, kept.pid(), twin, KCMP_VM, 0, 0), 0) << "they share their memory";
  const auto ref = ProcessRef::open(twin);
  ASSERT_TRUE(ref.ok());
  ASSERT_TRUE(ref->send_signal(SIGKILL).ok());
  // EINVAL: the memory still has a living user. ESRCH: the twin has exited already.
  const auto released = ref->release_memory();
  ASSERT_FALSE(released.ok());
  EXPECT_TRUE(released.error().code == EINVAL || released.error().code == ESRCH)
      << released.error().text();
  pollfd exit{ref->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&exit, 1, 60'000), 1);
  EXPECT_FALSE(kept.ended());
}

TEST(ProcessRef, ADuplicateOutlivesIt) {
  Child child(live);
  UniqueFd copy;
  {
    const auto ref = ProcessRef::open(child.pid());
    ASSERT_TRUE(ref.ok());
    auto made = ref->duplicate();
    ASSERT_TRUE(made.ok());
    copy = std::move(*made);
    EXPECT_NE(copy.get(), ref->fd());
  }
  EXPECT_EQ(release_memory_of(copy.get()), EINVAL);
  EXPECT_NE(fcntl(copy.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ProcessRef, RejectsInvalidPids) {
  EXPECT_FALSE(ProcessRef::open(0).ok());
  EXPECT_FALSE(ProcessRef::open(-1).ok());
}

}  // namespace
}  // namespace forestall::kernel
