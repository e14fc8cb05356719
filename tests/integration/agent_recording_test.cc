// SPDX-License-Identifier: Apache-2.0
// Recordings of the real agent under real pressure: a replay gives the same decisions byte for
// byte, and a recording is readable after its agent was killed.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "replay/recording_replay.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/file_changes.h"
#include "support/program.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test::agent_recording_test {
namespace {

using testing::HasSubstr;

constexpr Bytes kLimit = mib(192);
constexpr Bytes kThreshold = mib(64);

// A cgroup with a limit, two workloads in it, and a directory for recordings.
class Scene {
 public:
  Scene() {
    scratch.limit(scratch.path(), kLimit);
    scratch.child("keep");
    scratch.child("leak");
  }

  [[nodiscard]] std::string config(const std::string& more = "") const {
    return fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n{}"
        "watch:\n  - {{cgroup: {}, available: {}Mi}}\nworkloads:\n"
        "  - {{cgroup: {}, name: keep, priority: 10}}\n"
        "  - {{cgroup: {}, name: leak, priority: 0}}\n",
        more, scratch.path(), kThreshold.count >> 20, path("keep"), path("leak"));
  }
  [[nodiscard]] std::string ring_config() const {
    return config("recording: {directory: " + ring() + ", maxSize: 8Mi}\n");
  }
  [[nodiscard]] std::string ring() const { return tree / "ring"; }
  [[nodiscard]] std::string path(const std::string& name) const {
    return scratch.path() + "/" + name;
  }
  // Crosses the threshold at once, then reaches the limit after 20 s.
  void leak(const Hog& hog) const {
    hog.leak(kLimit - kThreshold + mib(24) - scratch.usage(scratch.path()), mib(2));
  }

  ScratchCgroup scratch;
  TempTree tree;
};

// A forestall process in the background.
class Command {
 public:
  Command(const std::vector<std::string>& arguments, const TempTree& tree)
      : out_(tree / "command.out"), err_(tree / "command.err"), tree_(tree.path()) {
    child_.emplace([&] {
      const int out = open(out_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      const int err = open(err_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      std::vector<std::string> command{forestall_executable()};
      command.insert(command.end(), arguments.begin(), arguments.end());
      return run_program(std::move(command), out, err);
    });
  }

  // Whether `there` becomes true while the process runs.
  [[nodiscard]] bool wait_until(const std::function<bool()>& there) const {
    return wait_for_files(tree_, child_->pidfd(), there);
  }
  // Sends SIGINT and returns the exit code; -1: it did not exit.
  int interrupt() {
    kill(child_->pid(), SIGINT);
    if (!child_->wait_exit()) return -1;
    const int status = child_->reap();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] std::string output() const { return read_text(out_); }
  [[nodiscard]] std::string errors() const { return read_text(err_); }

 private:
  std::string out_;
  std::string err_;
  std::string tree_;
  std::optional<Child> child_;
};

struct Replayed {
  std::uint64_t same = 0;
  std::uint64_t different = 0;
  std::uint64_t states_different = 0;
  std::uint64_t kills = 0;            // decisions of the replay
  std::vector<std::string> outcomes;  // victims of complete records
  // Complete records by origin: the replay decided the kill as well, or the agent's watchdog made
  // it. The watchdog acts if the loop gets no CPU for 250 ms.
  std::uint64_t by_loop = 0;
  std::uint64_t by_watchdog = 0;
  std::vector<std::string> remarks;
};

Replayed replayed(const std::string& path) {
  Replayed result;
  auto input = replay::RecordingInput::open(path);
  EXPECT_TRUE(input) << input.error().text();
  if (!input) return result;
  replay::RecordingReplay replay(std::move(*input), {});
  std::set<std::uint64_t> killing;
  while (auto step = replay.next().value()) {
    if (step->decision.action == Action::kill) killing.insert(step->evaluation);
  }
  result.kills = killing.size();
  result.same = replay.same();
  result.different = replay.different();
  result.states_different = replay.states_different();
  result.remarks = replay.input().remarks();
  auto again = std::move(replay::RecordingInput::open(path).value());
  while (auto item = again.next().value()) {
    const auto* record = std::get_if<messages::RecordedEntry>(&item->entry);
    if (record == nullptr || !record->record.outcome) continue;
    result.outcomes.push_back(record->record.outcome->victim.name);
    const bool by_watchdog = record->record.observation.wake.source == WakeSource::watchdog;
    if (record->evaluation == 0 && by_watchdog) ++result.by_watchdog;
    if (killing.contains(record->evaluation)) ++result.by_loop;
  }
  return result;
}

TEST(AgentRecording, ReplaysByteForByte) {
  const Scene scene;
  Hog keep(scene.scratch, scene.path("keep"), mib(16));
  AgentRun agent(scene.ring_config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  for (int i = 0; i < 3; ++i) {
    Hog leak(scene.scratch, scene.path("leak"), mib(8));
    scene.leak(leak);
    ASSERT_TRUE(agent.wait_kill()) << agent.process().log();
    EXPECT_TRUE(leak.child().wait_exit());
    if (i != 1) continue;
    // The reload drops a part of the policy's state.
    agent.rewrite_config(scene.ring_config() + "recheckInterval: 5s\n");
    kill(agent.process().pid(), SIGHUP);
    ASSERT_TRUE(agent.process().wait_for_log("event=reloaded", SystemClock().now() + kPatience));
  }
  kill(agent.process().pid(), SIGTERM);
  ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  const Replayed again = replayed(scene.ring());
  EXPECT_EQ(again.different, 0U);
  EXPECT_EQ(again.states_different, 0U);
  EXPECT_GE(again.same + again.by_watchdog, 7U);
  EXPECT_EQ(again.by_loop + again.by_watchdog, 3U) << agent.process().log();
  EXPECT_THAT(again.outcomes, testing::ElementsAre("leak", "leak", "leak"));
  EXPECT_THAT(again.remarks, testing::IsEmpty());
  EXPECT_TRUE(keep.alive());
  const Ran ran = run_forestall({"replay", scene.ring()});
  EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("all the same here, byte for byte"));
}

// The agent writes a decision to disk before it reports the kill.
TEST(AgentRecording, IsReadableUpToTheDeathOfItsWriter) {
  const Scene scene;
  Hog leak(scene.scratch, scene.path("leak"), mib(8));
  {
    AgentRun agent(scene.ring_config());
    ASSERT_FALSE(agent.failure()) << agent.failure()->text();
    scene.leak(leak);
    ASSERT_TRUE(agent.wait_kill()) << agent.process().log();
    // One thread prints the record, another one writes the recording.
    ASSERT_TRUE(
        wait_for_files(scene.ring(), -1, [&] { return !replayed(scene.ring()).outcomes.empty(); }));
    const Ran events = run_forestall({"events", "--run-dir", agent.directory().path()});
    EXPECT_EQ(events.exit_code, 0) << events.errors;
    EXPECT_THAT(events.output, HasSubstr("Z evicted leak: cgroupMemory.available "));
    kill(agent.process().pid(), SIGKILL);
    ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  }
  const Replayed first = replayed(scene.ring());
  EXPECT_EQ(first.different, 0U);
  EXPECT_EQ(first.by_loop + first.by_watchdog, 1U);
  EXPECT_THAT(first.outcomes, testing::ElementsAre("leak"));
  EXPECT_THAT(first.remarks, testing::ElementsAre(HasSubstr("not closed by its writer")));
  // The next agent appends to it.
  {
    AgentRun agent(scene.ring_config());
    ASSERT_FALSE(agent.failure()) << agent.failure()->text();
    kill(agent.process().pid(), SIGTERM);
    ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  }
  const Replayed both = replayed(scene.ring());
  EXPECT_EQ(both.different, 0U);
  EXPECT_GT(both.same, first.same);
  const Ran runs = run_forestall({"events", scene.ring(), "--kind", "run"});
  EXPECT_THAT(runs.output, HasSubstr("; nothing is recorded of the "));
}

// Times of the entries of one kind, in seconds.
template <typename Entry>
std::vector<double> entry_times(const std::string& path) {
  std::vector<double> times;
  auto input = replay::RecordingInput::open(path);
  if (!input) return times;
  while (auto item = input->next().value()) {
    if (const auto* entry = std::get_if<Entry>(&item->entry)) {
      if constexpr (std::is_same_v<Entry, messages::EvaluationEntry>) {
        times.push_back(static_cast<double>(to_ns(entry->evaluated.observation.at)) / 1e9);
      } else {
        times.push_back(static_cast<double>(to_ns(entry->at)) / 1e9);
      }
    }
  }
  return times;
}

// How late this machine ran a thread at worst: an emulated one on busy CPUs may stop for a second.
class Lateness {
 public:
  Lateness() : thread_([this](const std::stop_token& stop) { measure(stop); }) {}

  // Seconds. Ends the measurement.
  double worst() {
    thread_.request_stop();
    thread_.join();
    return std::chrono::duration<double>(worst_).count();
  }

 private:
  void measure(const std::stop_token& stop) {
    const UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    constexpr Duration kPeriod = std::chrono::milliseconds(20);
    MonotonicTime due = SystemClock().now() + kPeriod;
    const itimerspec period{{0, kPeriod.count()}, {0, kPeriod.count()}};
    timerfd_settime(timer.get(), 0, &period, nullptr);
    std::uint64_t expired = 0;
    while (!stop.stop_requested() && read(timer.get(), &expired, sizeof(expired)) > 0) {
      worst_ = std::max(worst_, SystemClock().now() - due);
      due += kPeriod * static_cast<std::int64_t>(expired);
    }
  }

  Duration worst_{};
  std::jthread thread_;
};

// Nothing happens, and the next recheck is in a minute. A reader would draw a straight line from
// one sample to the next.
TEST(AgentRecording, SamplesEachSecondWhileNothingHappens) {
  const Scene scene;
  Lateness lateness;
  Hog keep(scene.scratch, scene.path("keep"), mib(16));
  AgentRun agent(scene.ring_config() + "recheckInterval: 1m\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_for_files(scene.ring(), -1, [&] {
    return entry_times<messages::WorkloadSampleEntry>(scene.ring()).size() >= 5;
  }));
  kill(agent.process().pid(), SIGTERM);
  ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  const double longest = 1.5 + lateness.worst();
  for (const auto& times : {entry_times<messages::WorkloadSampleEntry>(scene.ring()),
                            entry_times<messages::EvaluationEntry>(scene.ring())}) {
    ASSERT_GE(times.size(), 5U);
    for (std::size_t i = 1; i < times.size(); ++i) {
      EXPECT_LT(times[i] - times[i - 1], longest) << i;
    }
  }
}

TEST(AgentRecording, AgentGuardsWithoutADiskToRecordOn) {
  const Scene scene;
  Hog leak(scene.scratch, scene.path("leak"), mib(8));
  AgentRun agent(scene.config("recording: {directory: /proc/none/ring}\n"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.leak(leak);
  EXPECT_TRUE(agent.wait_kill());
  kill(agent.process().pid(), SIGTERM);
  ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  EXPECT_THAT(agent.process().log(), HasSubstr("event=recording problem=\"/proc/none/ring: "));
}

// `forestall record` until Ctrl-C. It kills no process; the leak stops short of the limit.
void record_a_session(const std::vector<std::string>& more) {
  const Scene scene;
  Hog keep(scene.scratch, scene.path("keep"), mib(16));
  Hog leak(scene.scratch, scene.path("leak"), mib(8));
  scene.tree.write("config.yaml", scene.config());
  const std::string file = scene.tree / "session";
  std::vector<std::string> arguments{
      "record", "--config", scene.tree / "config.yaml", "--output", "json", "-o", file};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Command session(arguments, scene.tree);
  ASSERT_TRUE(session.wait_until([&] {
    auto input = replay::RecordingInput::open(file);
    return input && input->next().value().has_value();
  })) << session.errors();
  leak.grow(mib(120));
  ASSERT_TRUE(leak.wait_grown());
  ASSERT_TRUE(session.wait_until([&] { return replayed(file).kills > 0; })) << session.errors();
  ASSERT_EQ(session.interrupt(), 0) << session.errors();
  EXPECT_THAT(session.output(), HasSubstr("\"lostEntries\":"));
  EXPECT_THAT(session.errors(), HasSubstr("dry_run=yes"));
  const Replayed again = replayed(file);
  EXPECT_EQ(again.different, 0U);
  EXPECT_EQ(again.states_different, 0U);
  EXPECT_GT(again.kills, 0U);
  EXPECT_THAT(again.remarks, testing::IsEmpty());
  EXPECT_TRUE(leak.alive());
  EXPECT_TRUE(keep.alive());
}

TEST(RecordSession, RecordsUntilInterrupted) {
  record_a_session({});
}

TEST(RecordSession, WorksWithoutBpf) {
  record_a_session({"--disable-feature", "bpf"});
}

TEST(RecordSession, EndsAfterItsDuration) {
  const TempTree tree;
  const std::string file = tree / "session";
  const Ran ran = run_forestall({"record", "-o", file, "--duration", "100ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, testing::StartsWith(file + ": "));
  EXPECT_GE(replayed(file).same, 1U);
}

}  // namespace
}  // namespace forestall::test::agent_recording_test
