// SPDX-License-Identifier: Apache-2.0
// What is done with containers under pressure, on a node of files. Plain files have no events, so
// each container is read once a second.
#include "agent/container_pressure_controller.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/descriptors_used_up.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

int lines_with(const std::string& text, const std::string& part) {
  int lines = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++lines;
  }
  return lines;
}

// A plain file keeps the tail of a longer text, unlike a control file: all values have 8 digits.
constexpr Bytes kPodHigh{20'000'768};
constexpr Bytes kPodMax{50'003'968};
constexpr MonotonicTime kPressureStart(1h);

ContainerPressureConfig pressure_of_files() {
  ContainerPressureConfig config;
  config.rule.thresholds = {10.0, 20.0, std::nullopt};
  config.enforces = true;
  config.rule.stages.insert(PressureStage::reclaim);
  config.rule.stages.insert(PressureStage::lift);
  config.rule.reclaim_time = 5s;
  config.rule.lift_time = 10s;
  config.rule.calm_time = 20s;
  return config;
}

ContainerPressureConfig evicting_of_files() {
  ContainerPressureConfig config = pressure_of_files();
  config.rule.stages = {};
  config.rule.stages.insert(PressureStage::evict);
  config.rule.stages.insert(PressureStage::kill);
  config.rule.grace = 5s;
  config.rule.evict_time = 10s;
  return config;
}

class ContainerPressureFiles : public ::testing::Test {
 protected:
  ContainerPressureFiles() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    EXPECT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    for (const std::string path : {"/p/a", "/p/b"}) {
      set(path, "memory.high", kPodHigh);
      set(path, "memory.max", kPodMax);
      set_usage(path, kPodHigh, Bytes{});
      files_.write("cgroup" + path + "/memory.reclaim", "");
      files_.write("cgroup" + path + "/memory.pressure",
                   "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
                   "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
      set_events(path, 0);
    }
    set("/p", "memory.current", Bytes{50'000'000});
    files_.write("cgroup/p/memory.stat", "anon 1\ninactive_file 0\n");
    files_.write("cgroup/p/memory.max", "max\n");
    files_.write("cgroup/p/memory.high", "max\n");
    set_available(Bytes{99'999'744});
    start(exports::LogLevel::error);
  }
  void start(exports::LogLevel least) {
    controller_.reset();
    log_.emplace(exports::Log::Stream::standard_error, true, least);
    auto made = ContainerPressureController::create(tree_, records_, *log_, {}, files_ / "proc");
    ASSERT_TRUE(made) << made.error().text();
    controller_ = std::move(made).value();
  }
  // From here on until end_log(), which ends the controller.
  void begin_log() {
    testing::internal::CaptureStderr();
    start(exports::LogLevel::info);
  }
  [[nodiscard]] std::string end_log() {
    controller_.reset();
    log_.reset();  // its destructor writes all of it
    return testing::internal::GetCapturedStderr();
  }
  void set(const std::string& path, const char* file, Bytes value) const {
    files_.write("cgroup" + path + "/" + file, std::to_string(value.count));
  }
  void set_usage(const std::string& path, Bytes usage, Bytes inactive_file) const {
    set(path, "memory.current", usage);
    files_.write("cgroup" + path + "/memory.stat",
                 fmt::format("anon 1\ninactive_file {}\n", inactive_file.count));
  }
  void set_available(Bytes available) const {
    files_.write("proc/meminfo", fmt::format("MemTotal: 1000000 kB\nMemAvailable: {} kB\n",
                                             available.count / 1024));
  }
  void set_events(const std::string& path, int high) const {
    files_.write("cgroup" + path + "/memory.events.local",
                 fmt::format("low 0\nhigh {}\nmax 0\noom 0\noom_kill 0\n", high));
  }
  [[nodiscard]] PressureTarget target(const std::string& path, QosClass qos) const {
    return {"ns/pod" + path, path, *tree_.id_at(path), "/p", *tree_.id_at("/p"), qos, 0};
  }
  void apply(const ContainerPressureConfig& config = pressure_of_files()) {
    PressureTargets targets;
    targets.watched = {target("/p/a", QosClass::burstable), target("/p/b", QosClass::best_effort)};
    targets.exempt = 3;
    targets.reserve = Bytes{};
    controller_->apply(config, std::move(targets), now());
    static_cast<void>(controller_->advance(now()));
  }
  [[nodiscard]] MonotonicTime now() const { return kPressureStart + second_ * 1s; }
  // So many seconds more, in each of which these had 50 "high" events.
  void press(int count, const std::vector<std::string>& paths) {
    for (int n = 0; n < count; ++n) {
      ++second_;
      for (const std::string& each : paths) set_events(each, events_ += 50);
      do {
        static_cast<void>(controller_->advance(now()));
      } while (controller_->next_due().value_or(now() + 1s) <= now());
    }
  }
  [[nodiscard]] Bytes high(const std::string& path) const {
    return {std::stoll(test::read_text(files_ / ("cgroup" + path + "/memory.high")))};
  }
  [[nodiscard]] std::string reclaim(const std::string& path) const {
    return test::read_text(files_ / ("cgroup" + path + "/memory.reclaim"));
  }

  test::SmallNode files_{"/p", "/p/a", "/p/b"};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords records_{run_ / "memory-high"};
  std::optional<exports::Log> log_;
  std::unique_ptr<ContainerPressureController> controller_;
  int second_ = 0;
  int events_ = 0;
};

TEST_F(ContainerPressureFiles, ReclaimsThenLiftsAndRestores) {
  apply();
  press(3, {"/p/a"});
  EXPECT_EQ(reclaim("/p/a"), "1250048") << "a sixteenth of usage";
  EXPECT_EQ(reclaim("/p/b"), "") << "it is calm";
  EXPECT_EQ(high("/p/a"), kPodHigh);
  press(5, {"/p/a"});
  EXPECT_EQ(high("/p/a"), kPodMax);
  auto report = controller_->report();
  ASSERT_EQ(report.pressed.size(), 1U);
  EXPECT_EQ(report.pressed[0].subject, "ns/pod/p/a");
  EXPECT_EQ(report.pressed[0].stage, PressureStage::lift);
  EXPECT_EQ(report.pressed[0].cause, PressureCause::own_limit);
  EXPECT_EQ(report.pressed[0].lifted_from, kPodHigh);
  EXPECT_THAT(report.pressed[0].result, HasSubstr("memory.high lifted to"));
  EXPECT_EQ(report.lifts, 1U);
  EXPECT_EQ(report.exempt, 3U);
  press(40, {});
  EXPECT_EQ(high("/p/a"), kPodMax) << "its working set is at the value before";
  EXPECT_EQ(controller_->report().pressed.at(0).cause, PressureCause::none);
  set_usage("/p/a", kPodMax, Bytes{40'001'536});  // full of page cache
  press(1, {});
  EXPECT_EQ(high("/p/a"), kPodHigh);
  EXPECT_EQ(controller_->report().restores, 1U);
  EXPECT_THAT(controller_->report().pressed, IsEmpty());
}

TEST_F(ContainerPressureFiles, IsNotLiftedWithoutHeadroomForAllOfIt) {
  set_available(Bytes{29'999'104});  // the container may use 30,003,200 more
  apply();
  press(10, {"/p/a"});
  EXPECT_EQ(high("/p/a"), kPodHigh);
  ASSERT_EQ(controller_->report().pressed.size(), 1U);
  EXPECT_THAT(controller_->report().pressed[0].result, HasSubstr("too little headroom"));
  set_available(Bytes{31'000'576});
  press(1, {"/p/a"});
  EXPECT_EQ(high("/p/a"), kPodMax) << "it is tried again";
}

TEST_F(ContainerPressureFiles, TwoLiftsShareTheHeadroom) {
  set_available(Bytes{40'000'512});
  apply();
  press(10, {"/p/a", "/p/b"});
  EXPECT_TRUE((high("/p/a") == kPodMax) != (high("/p/b") == kPodMax));
  EXPECT_EQ(controller_->report().lifts, 1U);
}

TEST_F(ContainerPressureFiles, AShortNodeIsLeftToItsThresholds) {
  set_available(Bytes{0});
  apply();
  press(30, {"/p/a"});
  EXPECT_EQ(reclaim("/p/a"), "");
  EXPECT_EQ(high("/p/a"), kPodHigh);
  ASSERT_EQ(controller_->report().pressed.size(), 1U);
  EXPECT_EQ(controller_->report().pressed[0].cause, PressureCause::node);
  EXPECT_THAT(controller_->report().begun, ElementsAre(0, 0, 0, 0));
}

TEST_F(ContainerPressureFiles, ObservingChangesNothingAndReportsTheStages) {
  ContainerPressureConfig config = pressure_of_files();
  config.enforces = false;
  apply(config);
  press(30, {"/p/a"});
  EXPECT_EQ(reclaim("/p/a"), "");
  EXPECT_EQ(high("/p/a"), kPodHigh);
  ASSERT_EQ(controller_->report().pressed.size(), 1U);
  EXPECT_EQ(controller_->report().pressed[0].stage, PressureStage::lift);
  EXPECT_EQ(controller_->report().pressed[0].result, "observed only");
  EXPECT_THAT(controller_->report().begun, ElementsAre(1, 1, 0, 0));
}

TEST_F(ContainerPressureFiles, WithoutAReserveTheNodeIsUnknownAndNothingIsDone) {
  PressureTargets targets;
  targets.watched = {target("/p/a", QosClass::burstable)};
  controller_->apply(pressure_of_files(), std::move(targets), now());
  press(30, {"/p/a"});
  EXPECT_EQ(reclaim("/p/a"), "");
  EXPECT_EQ(high("/p/a"), kPodHigh);
  ASSERT_EQ(controller_->report().pressed.size(), 1U);
  EXPECT_EQ(controller_->report().pressed[0].cause, PressureCause::unknown);
}

// A reading that fails once must not pass for a container without limits, or a calm one.
TEST_F(ContainerPressureFiles, AnUnreadableLimitStopsTheTime) {
  apply();
  press(4, {"/p/a"});
  files_.write("cgroup/p/a/memory.high", "no number");
  press(10, {"/p/a"});
  EXPECT_EQ(controller_->report().unread, 1U);
  EXPECT_EQ(test::read_text(files_ / "cgroup/p/a/memory.high"), "no number");
  set("/p/a", "memory.high", kPodHigh);
  press(5, {"/p/a"});
  EXPECT_EQ(high("/p/a"), kPodHigh) << "the time begins anew";
  press(5, {"/p/a"});
  EXPECT_EQ(high("/p/a"), kPodMax);
}

// Without a free descriptor no file can be opened: a container is neither calm nor lifted then.
TEST_F(ContainerPressureFiles, WithoutFreeDescriptorsTheTimeStopsAndALiftStays) {
  apply();
  press(10, {"/p/a"});
  ASSERT_EQ(high("/p/a"), kPodMax);
  set_usage("/p/a", Bytes{10'002'432}, Bytes{});
  press(1, {});
  {
    const test::DescriptorsUsedUp none;
    second_ += 1;
    static_cast<void>(controller_->advance(now()));
    EXPECT_EQ(controller_->report().unread, 2U);
    second_ += 100;  // longer than calmTime
    static_cast<void>(controller_->advance(now()));
  }
  EXPECT_EQ(high("/p/a"), kPodMax);
  press(2, {});
  EXPECT_EQ(controller_->report().unread, 0U);
  EXPECT_EQ(high("/p/a"), kPodMax) << "the calm time begins anew";
  press(40, {});
  EXPECT_EQ(high("/p/a"), kPodHigh);
}

TEST_F(ContainerPressureFiles, WhyOneIsNotWatchedIsLoggedOnce) {
  begin_log();
  std::filesystem::remove(files_ / "cgroup/p/b/memory.events.local");
  PressureTargets targets;
  targets.watched = {target("/p/a", QosClass::burstable), target("/p/b", QosClass::burstable)};
  targets.refused = {{"/own", "it holds this agent"}};
  for (int n = 0; n < 3; ++n) controller_->apply(pressure_of_files(), targets, now());
  EXPECT_EQ(controller_->report().watched, 1U);
  EXPECT_EQ(controller_->report().not_watched, 2U);
  const std::string logged = end_log();
  EXPECT_EQ(lines_with(logged, "cgroup=/own"), 1) << logged;
  EXPECT_EQ(lines_with(logged, "cgroup=/p/b"), 1) << logged;
  EXPECT_THAT(logged, HasSubstr("it holds this agent"));
  EXPECT_THAT(logged, HasSubstr("/p/b/memory.events"));
}

TEST_F(ContainerPressureFiles, AContainerThatWasRemovedMeanwhileIsNoProblem) {
  begin_log();
  PressureTargets targets;
  targets.watched = {target("/p/a", QosClass::burstable)};
  std::filesystem::remove_all(files_ / "cgroup/p/a");
  controller_->apply(pressure_of_files(), targets, now());
  EXPECT_EQ(controller_->report().watched, 0U);
  EXPECT_EQ(end_log(), "");
}

TEST_F(ContainerPressureFiles, OfAPodWithUnknownFactsTheLiftStays) {
  apply();
  press(10, {"/p/a"});
  ASSERT_EQ(high("/p/a"), kPodMax);
  PressureTargets unknown;
  unknown.reserve = Bytes{};
  unknown.unknown_pods = {"/p"};
  controller_->apply(pressure_of_files(), std::move(unknown), now());
  EXPECT_EQ(high("/p/a"), kPodMax);
  EXPECT_EQ(controller_->report().watched, 2U);
  EXPECT_EQ(controller_->report().unknown_pods, 1U);
}

TEST_F(ContainerPressureFiles, ALiftOutlivesAnotherThreshold) {
  apply();
  press(10, {"/p/a"});
  ASSERT_EQ(high("/p/a"), kPodMax);
  ContainerPressureConfig config = pressure_of_files();
  config.rule.thresholds[0] = 11.0;
  apply(config);
  EXPECT_EQ(high("/p/a"), kPodMax);
  config.enforces = false;
  apply(config);
  EXPECT_EQ(high("/p/a"), kPodHigh) << "it is only observed now";
}

TEST_F(ContainerPressureFiles, EvictionsFollowInTheOrderOfTheResponse) {
  ContainerPressureConfig config = evicting_of_files();
  apply(config);
  press(4, {"/p/a", "/p/b"});
  EXPECT_THAT(controller_->evictions(), IsEmpty()) << "within the grace period";
  press(6, {"/p/a", "/p/b"});
  const auto evictions = controller_->evictions();
  ASSERT_EQ(evictions.size(), 2U);
  EXPECT_EQ(evictions[0].subject, "ns/pod/p/b") << "BestEffort comes first";
  EXPECT_EQ(evictions[0].stage, PressureStage::evict);
  EXPECT_EQ(evictions[0].signal, PressureSignal::high);
  EXPECT_GT(evictions[0].value, 10);
  EXPECT_EQ(evictions[0].threshold, 10);
  EXPECT_EQ(evictions[0].at, now());
  press(12, {"/p/a", "/p/b"});
  ASSERT_EQ(controller_->evictions().size(), 2U);
  EXPECT_EQ(controller_->evictions()[0].stage, PressureStage::kill);
  press(1, {"/p/a"});
  ASSERT_EQ(controller_->evictions().size(), 1U) << "the other one had no event";
  EXPECT_EQ(controller_->evictions()[0].subject, "ns/pod/p/a");
  config.enforces = false;
  apply(config);
  press(30, {"/p/a"});
  EXPECT_THAT(controller_->evictions(), IsEmpty()) << "it is only observed now";
}

// So systemd restarts a service in the cgroup of the one that was killed.
TEST_F(ContainerPressureFiles, AfterAKillThePressureOfItsProcessesIsForgotten) {
  apply(evicting_of_files());
  press(20, {"/p/a", "/p/b"});
  ASSERT_EQ(controller_->evictions().size(), 2U);
  KillProgress kill{*tree_.id_at("/p/a"), "/p/a", KillState::terminating, now(), {}, {}};
  controller_->note_evaluation({kill}, {}, now());
  press(1, {"/p/a", "/p/b"});
  EXPECT_EQ(controller_->evictions().size(), 2U) << "a grace: it may have to be killed";
  kill.state = KillState::in_flight;
  for (int n = 0; n < 5; ++n) {
    controller_->note_evaluation({kill}, {}, now());
    press(1, {"/p/a", "/p/b"});
    ASSERT_EQ(controller_->evictions().size(), 1U);
    EXPECT_EQ(controller_->evictions()[0].subject, "ns/pod/p/b");
  }
  press(4, {"/p/a", "/p/b"});
  EXPECT_EQ(controller_->evictions().size(), 2U) << "under pressure for the grace period again";
}

TEST_F(ContainerPressureFiles, AKillOfThePodCountsForItsContainers) {
  apply(evicting_of_files());
  press(20, {"/p/a"});
  ASSERT_EQ(controller_->evictions().size(), 1U);
  controller_->note_evaluation({{*tree_.id_at("/p"), "/p", KillState::released, now(), {}, {}}}, {},
                               now());
  press(1, {"/p/a"});
  EXPECT_THAT(controller_->evictions(), IsEmpty());
}

TEST_F(ContainerPressureFiles, APodThatIsRefusedIsRequestedLessOften) {
  ContainerPressureConfig config = evicting_of_files();
  config.rule.evict_time = 1h;
  apply(config);
  int requests = 0;
  for (int second = 0; second < 200; ++second) {
    press(1, {"/p/a"});
    if (!controller_->has_new_evictions()) continue;
    ++requests;
    controller_->note_evaluation({}, {{"ns/pod/p/a", "not evicted: it is protected"}}, now());
  }
  EXPECT_THAT(requests, testing::AllOf(testing::Ge(8), testing::Le(12)));
  EXPECT_EQ(controller_->report().pressed.at(0).result, "not evicted: it is protected");
  config.rule.evict_time = 5s;
  apply(config);
  press(30, {"/p/a"});
  ASSERT_EQ(controller_->evictions().size(), 1U);
  EXPECT_EQ(controller_->evictions()[0].stage, PressureStage::kill) << "it begins anew";
}

// They are read at other times.
TEST_F(ContainerPressureFiles, ARequestStaysUntilTheNextReadingOfItsContainer) {
  apply(evicting_of_files());
  press(20, {"/p/a"});
  ASSERT_EQ(controller_->evictions().size(), 1U);
  PressureTargets targets;
  targets.watched = {target("/p/a", QosClass::burstable)};
  targets.reserve = Bytes{};
  controller_->apply(evicting_of_files(), targets, now());
  targets.watched.push_back(target("/p/b", QosClass::best_effort));
  controller_->apply(evicting_of_files(), targets, now() + 500ms);
  static_cast<void>(controller_->advance(now() + 500ms));
  EXPECT_FALSE(controller_->has_new_evictions());
  ASSERT_EQ(controller_->evictions().size(), 1U);
  EXPECT_EQ(controller_->evictions()[0].subject, "ns/pod/p/a");
  press(1, {});
  EXPECT_THAT(controller_->evictions(), IsEmpty());
}

// Another process, for example the kubelet, may set a value of its own meanwhile.
TEST_F(ContainerPressureFiles, AValueOfAnotherProcessStays) {
  apply();
  press(10, {"/p/a"});
  ASSERT_EQ(high("/p/a"), kPodMax);
  set("/p/a", "memory.high", Bytes{30'003'200});
  set_usage("/p/a", Bytes{10'002'432}, Bytes{});
  press(1, {});
  ASSERT_EQ(controller_->report().pressed.size(), 1U);
  EXPECT_THAT(controller_->report().pressed[0].result, HasSubstr("another process"));
  press(40, {});
  EXPECT_EQ(high("/p/a"), Bytes{30'003'200});
  EXPECT_EQ(controller_->report().restores, 0U);
}

// As if its memory controller was turned off and on.
TEST_F(ContainerPressureFiles, FilesThatComeBackAreReadAgain) {
  apply();
  press(1, {});
  std::filesystem::remove(files_ / "cgroup/p/a/memory.high");
  press(2, {});
  set("/p/a", "memory.high", kPodHigh);
  apply();
  press(10, {"/p/a"});
  EXPECT_EQ(high("/p/a"), kPodMax);
}

TEST_F(ContainerPressureFiles, ALiftEndsWithItsConfigurationAndWithItsTarget) {
  apply();
  press(10, {"/p/a", "/p/b"});
  ASSERT_EQ(high("/p/a"), kPodMax);
  ASSERT_EQ(high("/p/b"), kPodMax);
  PressureTargets one;
  one.reserve = Bytes{};
  one.watched = {target("/p/b", QosClass::best_effort)};
  controller_->apply(pressure_of_files(), std::move(one), now());
  EXPECT_EQ(high("/p/a"), kPodHigh);
  EXPECT_EQ(high("/p/b"), kPodMax);
  controller_->apply({}, {}, now());
  EXPECT_EQ(high("/p/b"), kPodHigh);
}

TEST_F(ContainerPressureFiles, EachLiftThatEndsIsLogged) {
  begin_log();
  apply();
  press(10, {"/p/a", "/p/b"});
  PressureTargets one;
  one.reserve = Bytes{};
  one.watched = {target("/p/b", QosClass::best_effort)};
  controller_->apply(pressure_of_files(), std::move(one), now());
  EXPECT_EQ(controller_->report().restores, 1U);
  const std::string logged = end_log();
  EXPECT_EQ(lines_with(logged, "container-pressure-restored cgroup=/p/a"), 1) << logged;
  EXPECT_EQ(lines_with(logged, "container-pressure-restored cgroup=/p/b"), 1) << logged;
  EXPECT_EQ(high("/p/b"), kPodHigh);
}

TEST_F(ContainerPressureFiles, CountsOutliveATimeInWhichItIsOff) {
  apply();
  press(10, {"/p/a"});
  controller_->apply({}, {}, now());
  EXPECT_EQ(controller_->report().watched, 0U);
  apply();
  EXPECT_EQ(controller_->report().lifts, 1U);
  EXPECT_EQ(controller_->report().restores, 1U);
}

TEST_F(ContainerPressureFiles, AKernelWithoutReclaimGoesOnToTheLift) {
  std::filesystem::remove(files_ / "cgroup/p/a/memory.reclaim");
  apply();
  press(10, {"/p/a"});
  EXPECT_EQ(high("/p/a"), kPodMax);
}

}  // namespace
}  // namespace forestall::agent
