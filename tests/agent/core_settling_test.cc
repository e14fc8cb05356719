// SPDX-License-Identifier: Apache-2.0
// A runtime makes a pod's cgroup first and writes its limit a moment later. The agent must read the
// limit long before the next regular recheck. The tree is files; the test sets the time.
#include <gtest/gtest.h>

#include <algorithm>

#include "agent/core.h"
#include "support/manual_clock.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Reports new cgroups when the test requests it, and keeps what was armed.
class FakeSource final : public sources::Source {
 public:
  [[nodiscard]] Feature feature() const override { return Feature::bpf_cgroups; }
  [[nodiscard]] int fd() const override { return -1; }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime) override {
    armed.assign(lines.begin(), lines.end());
    return std::vector<std::string>();
  }
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override {
    wakes.push_back(Wake{WakeSource::workload_change, now, {}, {}});
  }

  [[nodiscard]] bool watches(const std::string& path) const {
    return std::ranges::any_of(armed, [&](const Line& line) { return line.path == path; });
  }

  std::vector<Line> armed;
};

Config watching(const std::string& cgroup) {
  Config config;
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.cgroup = cgroup;
  threshold.limit = Limit::bytes(mib(16));
  config.thresholds = {threshold};
  config.recheck_interval = seconds(10);
  return config;
}

class CoreSettling : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    const Config config = watching("/pods/*");
    auto observer = sources::Observer::create(tree_, config, files_ / "proc");
    ASSERT_TRUE(observer) << observer.error().text();
    observer_ = std::move(observer).value();
    auto ladder = actuators::Ladder::create(tree_, clock_, {});
    ASSERT_TRUE(ladder) << ladder.error().text();
    ladder_ = std::move(ladder).value();
    Parts parts;
    parts.clock = &clock_;
    parts.tree = &tree_;
    parts.observer = observer_.get();
    parts.ladder = ladder_.get();
    parts.sources = {&source_};
    parts.log = &log_;
    parts.has_cgroup_events = true;
    core_.emplace(parts, config);
    core_->start();
  }

  void make_pod(const std::string& path, const std::string& limit) {
    files_.set_group(path, 1 << 20);
    files_.write("cgroup" + path + "/memory.max", limit + "\n");
  }

  // Advances the clock to the next deadline of the core and returns the difference.
  Duration next() {
    const Duration wait = core_->next_due() - clock_.now();
    clock_.advance(wait);
    core_->time_passed();
    return wait;
  }

  test::SmallNode files_{"/pods"};
  test::ManualClock clock_;
  kernel::CgroupTree tree_;
  std::unique_ptr<sources::Observer> observer_;
  std::unique_ptr<actuators::Ladder> ladder_;
  FakeSource source_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  std::optional<Core> core_;
};

TEST_F(CoreSettling, ALimitWrittenAfterTheCgroupWasMadeIsKnownSoon) {
  while (next() < seconds(9)) {
  }
  clock_.advance(seconds(1));
  make_pod("/pods/b", "max");
  core_->source_ready(source_);
  EXPECT_FALSE(source_.watches("/pods/b")) << "it has no limit yet";
  make_pod("/pods/b", "268435456");
  EXPECT_LE(next(), milliseconds(100));
  EXPECT_TRUE(source_.watches("/pods/b"));
}

TEST_F(CoreSettling, ATreeAtRestIsReadAtItsInterval) {
  EXPECT_EQ(next(), milliseconds(100));
  EXPECT_EQ(next(), seconds(1));
  EXPECT_EQ(next(), seconds(10));
  EXPECT_EQ(next(), seconds(10));
  clock_.advance(seconds(1));
  make_pod("/pods/b", "max");
  core_->source_ready(source_);
  EXPECT_EQ(next(), milliseconds(100));
  EXPECT_EQ(next(), seconds(1));
  EXPECT_EQ(next(), seconds(10));
}

}  // namespace
}  // namespace forestall::agent
