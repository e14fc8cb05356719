// SPDX-License-Identifier: Apache-2.0
// The watchdog's orders for several thresholds of one subject: it watches each of them, whichever
// is the nearest when the orders are made. On real memory. The test sets the node's thresholds by
// hand, so that other load of this machine does not matter.
#include "agent/watchdog.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "agent/growth_watch.h"
#include "agent/victim_cache.h"
#include "integration/core_run.h"
#include "policy/signals.h"
#include "sources/node_reader.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr Duration kSoon = std::chrono::milliseconds(40);

// From now on call `number` of this thread, and of threads that it starts, waits until the owner of
// the returned descriptor lets it continue.
UniqueFd listen_to(long number) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof(program) / sizeof(program[0]), program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return {};
  return UniqueFd(static_cast<int>(
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter)));
}

// From now on this thread, and threads that it starts, cannot open a file.
bool refuse_opening() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof(program) / sizeof(program[0]), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

// The scheduling policy of the thread that makes the call, which then continues; -1: there is none.
int policy_of_caller(int listener) {
  pollfd called{listener, POLLIN, 0};
  if (poll(&called, 1, static_cast<int>(kPatience / std::chrono::milliseconds(1))) != 1) return -1;
  seccomp_notif call{};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return -1;
  const int policy = sched_getscheduler(static_cast<pid_t>(call.pid));
  seccomp_notif_resp resume{};
  resume.id = call.id;
  resume.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resume) == 0 ? policy : -1;
}

class WatchdogTest : public ::testing::Test {
 protected:
  WatchdogTest()
      : path_(scratch_.child("victim")),
        hog_(scratch_, path_, mib(16)),
        config_(watching(scratch_.path(), mib(64), {"victim", "later"})),
        observer_(LadderRun::must(sources::Observer::create(run_.tree(), config_))),
        growth_(clock_, *observer_),
        victim_cache_(clock_, *observer_, run_.ladder(), growth_, work_),
        watchdog_(LadderRun::must(
            agent::Watchdog::create(run_.tree(), clock_, /*real_time=*/false, kSoon))) {
    observer_->refresh();
    std::vector<SourceNote> notes;
    std::string buffer;
    node_ = LadderRun::must(sources::NodeReader::open(run_.tree(), "/proc")).read(buffer, notes);
  }

  // A threshold of the node: `is_met` always or never, whatever the node's memory does.
  [[nodiscard]] Line line(Signal signal, Bytes headroom, bool is_met) const {
    const auto level = signal == Signal::memory_until_oom ? policy::until_oom_level(node_)
                                                          : policy::node_level(node_);
    Line line;
    line.signal = signal;
    line.path = "/";
    line.headroom = headroom;
    line.capacity = level->capacity;
    line.floor_line = is_met ? Bytes{0} : level->capacity;
    line.margin = mib(64);
    return line;
  }
  // The orders that the victim cache makes of them.
  std::vector<agent::Watchdog::Order> orders_for(const std::vector<Line>& lines) {
    victim_cache_.note(lines, clock_.now());
    while (victim_cache_.working()) victim_cache_.work(config_, {}, clock_.now());
    while (run_.ladder().pinning()) {
      pollfd pinned{run_.ladder().pins_fd(), POLLIN, 0};
      ::poll(&pinned, 1, -1);
      (void)victim_cache_.take_pins();
    }
    return victim_cache_.orders(config_, {}, clock_.now());
  }
  std::optional<agent::KillRequest> wait_kill() {
    pollfd fired{watchdog_->fd(), POLLIN, 0};
    ::poll(&fired, 1, static_cast<int>(kPatience / std::chrono::milliseconds(1)));
    return watchdog_->take_kill();
  }

  SystemClock clock_;
  LadderRun run_{actuators::LadderOptions{.usable = kAllOfKilling}};
  ScratchCgroup scratch_;
  std::string path_;
  Hog hog_;
  Config config_;
  std::unique_ptr<sources::Observer> observer_;
  agent::GrowthWatch growth_;
  exports::LoopWorkTally work_;
  agent::VictimCache victim_cache_;
  std::unique_ptr<agent::Watchdog> watchdog_;
  NodeSample node_;
};

TEST_F(WatchdogTest, EveryThresholdOfASubjectIsWatched) {
  const auto orders = orders_for({line(Signal::memory_available, gib(1), false),
                                  line(Signal::memory_until_oom, mib(8), false)});
  ASSERT_EQ(orders.size(), 2U);
  for (const Signal signal : {Signal::memory_available, Signal::memory_until_oom}) {
    const auto order = std::ranges::find(orders, signal, &agent::Watchdog::Order::signal);
    ASSERT_NE(order, orders.end());
    EXPECT_EQ(order->victim.sample.workload.path, path_);
    EXPECT_NE(order->pinned, nullptr);
  }
}

// Such as a protected workload in the first victim.
TEST_F(WatchdogTest, AListThatAChangeOfTheWorkloadsOutdatedHasNoOrders) {
  ASSERT_FALSE(orders_for({line(Signal::memory_available, mib(32), false)}).empty());
  scratch_.child("later");
  observer_->refresh();
  EXPECT_TRUE(victim_cache_.orders(config_, {}, clock_.now()).empty());
}

// memory.untilOom is the nearer one when the loop hangs, and stays unmet.
TEST_F(WatchdogTest, MemoryAvailableIsActedUponBehindANearerUntilOom) {
  auto orders = orders_for({line(Signal::memory_until_oom, mib(8), false),
                            line(Signal::memory_available, mib(32), true)});
  watchdog_->post(std::move(orders), clock_.now() + kPatience);
  const auto kill = wait_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().threshold.signal, Signal::memory_available);
  EXPECT_EQ(kill->signalled->processes, 1U);
  EXPECT_TRUE(hog_.child().wait_exit());
}

TEST_F(WatchdogTest, UntilOomIsActedUponToo) {
  auto orders = orders_for({line(Signal::memory_available, mib(8), false),
                            line(Signal::memory_until_oom, mib(32), true)});
  watchdog_->post(std::move(orders), clock_.now() + kPatience);
  const auto kill = wait_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().threshold.signal, Signal::memory_until_oom);
  EXPECT_GT(kill->observation.wake.usage, Bytes{0});
  EXPECT_TRUE(hog_.child().wait_exit());
}

// It may wait there for a lock that any tenant takes.
TEST_F(WatchdogTest, TheLoopOpensNoFileForItsOrders) {
  auto orders = orders_for({line(Signal::memory_available, mib(32), true)});
  bool refused = false;
  std::thread loop([&] {
    refused = refuse_opening();
    watchdog_->post(std::move(orders), clock_.now() + kPatience);
  });
  loop.join();
  ASSERT_TRUE(refused) << errno;
  ASSERT_TRUE(wait_kill());
  EXPECT_TRUE(hog_.child().wait_exit());
}

// process_mrelease of gigabytes at FIFO 51 would keep a CPU from all other work.
TEST_F(WatchdogTest, FreesTheVictimsMemoryAtOrdinaryPriority) {
  UniqueFd listener;
  std::thread creator([&] {
    listener = listen_to(SYS_process_mrelease);
    watchdog_ = LadderRun::must(agent::Watchdog::create(run_.tree(), clock_, true, kSoon));
  });
  creator.join();
  ASSERT_TRUE(listener) << errno;
  watchdog_->post(orders_for({line(Signal::memory_available, mib(32), true)}),
                  clock_.now() + kPatience);
  ASSERT_TRUE(wait_kill());
  EXPECT_EQ(policy_of_caller(listener.get()), SCHED_OTHER);
  // Further calls are not held: they fail with ENOSYS.
  listener.reset();
  EXPECT_TRUE(hog_.child().wait_exit());
}

// If the amount of swap changes after the order, its line is elsewhere.
TEST_F(WatchdogTest, UntilOomOfAnotherCapacityIsVoid) {
  Line stale = line(Signal::memory_until_oom, mib(8), true);
  stale.capacity += mib(64);
  auto orders = orders_for({stale, line(Signal::memory_available, mib(32), true)});
  ASSERT_EQ(orders.size(), 2U);
  watchdog_->post(std::move(orders), clock_.now() + kPatience);
  const auto kill = wait_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().threshold.signal, Signal::memory_available);
}

}  // namespace
}  // namespace forestall::test
