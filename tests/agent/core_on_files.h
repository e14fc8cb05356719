// SPDX-License-Identifier: Apache-2.0
// The core on a node of files (support/small_node.h). The test sets the time, and calls the core as
// the event loop does.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core.h"
#include "support/small_node.h"

namespace forestall::agent {

// Keeps what was armed, and wakes with what the test puts into it.
class FakeSource final : public sources::Source {
 public:
  explicit FakeSource(Feature feature) : feature_(feature) {}

  [[nodiscard]] Feature feature() const override { return feature_; }
  [[nodiscard]] int fd() const override { return -1; }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime) override {
    armed.assign(lines.begin(), lines.end());
    return problems;
  }
  [[nodiscard]] bool covers(const Line& line) const override { return line.path != unseen; }
  [[nodiscard]] bool follows(const Line& line) const override {
    return follows_node && line.cgroup == CgroupId{};
  }
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override {
    wakes.push_back(Wake{reported, at.value_or(now), {}, {}});
  }
  [[nodiscard]] bool watches(const std::string& path) const {
    return std::ranges::any_of(armed, [&](const Line& line) { return line.path == path; });
  }

  std::vector<Line> armed;
  std::vector<std::string> problems;
  std::string unseen;  // path
  bool follows_node = false;
  WakeSource reported = WakeSource::workload_change;
  std::optional<MonotonicTime> at;

 private:
  const Feature feature_;
};

// A threshold on the memory that the cgroups at `path` have left.
inline Threshold own_limit(const std::string& path, Bytes available) {
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.cgroup = path;
  threshold.limit = Limit::bytes(available);
  return threshold;
}

class CoreOnFiles : public ::testing::Test {
 protected:
  CoreOnFiles(std::initializer_list<std::string> groups) : files_(groups) {}

  // The cgroups that exist by now, an observer and a ladder.
  void open(const Config& config, const Clock& clock,
            const actuators::LadderOptions& options = {}) {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    auto observer = sources::Observer::create(tree_, config, files_ / "proc");
    ASSERT_TRUE(observer) << observer.error().text();
    observer_ = std::move(observer).value();
    auto ladder = actuators::Ladder::create(tree_, clock, options);
    ASSERT_TRUE(ladder) << ladder.error().text();
    ladder_ = std::move(ladder).value();
  }
  // REQUIRES: open().
  void start(Parts parts, const Config& config) {
    core_.emplace(std::move(parts), config);
    core_->start();
  }
  // Runs what falls due, until so much time has passed.
  template <class SettableClock>
  void pass(SettableClock& clock, Duration length) {
    const MonotonicTime end = clock.now() + length;
    while (core_->next_due() <= end) {
      clock.advance(std::max(core_->next_due() - clock.now(), Duration::zero()));
      core_->time_passed();
      after_time_passed();
      take_pins();
    }
    clock.advance(std::max(end - clock.now(), Duration::zero()));
  }
  virtual void after_time_passed() {}
  // What is being pinned is pinned in no time of the test's clock.
  void take_pins() {
    while (ladder_->pinning()) {
      pollfd pinned{ladder_->pins_fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&pinned, 1, -1), 1);
      core_->pins_ready();
    }
  }

  void make_pod(const std::string& path, const std::string& limit = "268435456") const {
    files_.set_group(path, 1 << 20);
    files_.write("cgroup" + path + "/memory.max", limit + "\n");
  }

  test::SmallNode files_;
  kernel::CgroupTree tree_;
  std::unique_ptr<sources::Observer> observer_;
  std::unique_ptr<actuators::Ladder> ladder_;
  std::optional<exports::Log> log_{std::in_place, exports::Log::Stream::standard_error, true,
                                   exports::LogLevel::error};
  std::optional<Core> core_;
};

}  // namespace forestall::agent
