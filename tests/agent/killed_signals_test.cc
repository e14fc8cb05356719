// SPDX-License-Identifier: Apache-2.0
// The signal after a kill in systemd-oomd's place, on a bus of the test.
#include "daemon/killed_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_unit_bus.h"

namespace forestall::daemon {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class KeptMarks final : public actuators::ManagedOomMarker {
 public:
  void mark(actuators::ManagedOomMark mark) override { processes.push_back(mark.processes); }
  std::vector<std::uint64_t> processes;
};

class KilledSignalsTest : public ::testing::Test {
 protected:
  void start() {
    auto started = KilledSignals::start(log_, bus_.address(), 1ms);
    ASSERT_TRUE(started);
    signals_ = std::move(*started);
    signals_->set_on(true);
  }
  // Waits for what status shows.
  void wait_for_problem(const std::string& wanted) {
    while (signals_->problem() != wanted) std::this_thread::yield();
  }

  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  test::FakeUnitBus bus_{{}};
  std::unique_ptr<KilledSignals> signals_;
};

TEST_F(KilledSignalsTest, AKillIsMarkedAndHasASignal) {
  start();
  wait_for_problem("");
  KeptMarks marks;
  SignallingMarker marker(marks, *signals_);
  actuators::ManagedOomMark mark;
  mark.victim.path = "/a";
  marker.mark(mark);  // it signalled no process
  mark.processes = 2;
  marker.mark(mark);
  mark.for_swap = true;
  marker.mark(mark);
  EXPECT_EQ(bus_.next_killed(), "/a memory-pressure");
  EXPECT_EQ(bus_.next_killed(), "/a memory-used");
  EXPECT_THAT(marks.processes, testing::ElementsAre(0U, 2U, 2U));
}

TEST_F(KilledSignalsTest, TheNameOfAnotherProgramIsNotTakenOver) {
  bus_.set_name_reply(3);
  start();
  wait_for_problem("another program has the name org.freedesktop.oom1: File exists");
  signals_->send("/lost", false);
  bus_.set_name_reply(1);
  wait_for_problem("");
  signals_->send("/a", false);
  std::string killed = bus_.next_killed();
  // The other program may leave before the thread drops what could not be sent.
  if (killed == "/lost memory-pressure") killed = bus_.next_killed();
  EXPECT_EQ(killed, "/a memory-pressure");
}

TEST_F(KilledSignalsTest, ABusThatGoesAwayIsUsedAgain) {
  start();
  wait_for_problem("");
  bus_.go_away();
  while (signals_->problem() == "") std::this_thread::yield();
  bus_.accept_again();
  wait_for_problem("");
  signals_->send("/a", true);
  EXPECT_EQ(bus_.next_killed(), "/a memory-used");
}

TEST_F(KilledSignalsTest, OffThereIsNoSignal) {
  start();
  wait_for_problem("");
  signals_->set_on(false);
  EXPECT_FALSE(signals_->problem());
  signals_->send("/a", true);
  signals_->set_on(true);
  wait_for_problem("");
  signals_->send("/b", true);
  EXPECT_EQ(bus_.next_killed(), "/b memory-used");
}

}  // namespace
}  // namespace forestall::daemon
