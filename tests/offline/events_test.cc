// SPDX-License-Identifier: Apache-2.0
// `forestall events` on recordings, from a user's view.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"
#include "forestall/v1/event.pb.h"
#include "messages/json.h"
#include "offline/last_events.h"
#include "picture/incident.h"
#include "replay/recorded_run.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/file_changes.h"
#include "support/program.h"
#include "support/temp_tree.h"
#include "tests/policy/world.h"

namespace forestall::test {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> lines_of(const std::string& output) {
  std::vector<std::string> lines;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

class EventsCommand : public testing::Test {
 protected:
  EventsCommand() { write_incident(file_, {}); }

  [[nodiscard]] std::vector<std::string> events(
      const std::vector<std::string>& options = {}) const {
    return events_of(file_, options);
  }
  [[nodiscard]] std::vector<std::string> events_of(
      const std::string& path, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments{"events", path};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(ran.errors, "");
    return lines_of(ran.output);
  }

  TempTree tree_;
  const std::string file_ = tree_ / "recording";
};

TEST_F(EventsCommand, PrintsTheSentencesOfTheLogInTheOrderOfTime) {
  const std::vector<std::string> lines = events();
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_THAT(lines[0],
              StartsWith("2026-03-14T09:28:33.000Z the agent begins to record: version "));
  EXPECT_THAT(lines[1], HasSubstr("Z the kernel's OOM killer killed convert (pid 31337) in "
                                  "/system.slice/thumbnails.service, "));
  EXPECT_EQ(lines[2], "2026-03-14T09:42:35.000Z met: memory.available 1.48Gi < 1.5Gi");
  EXPECT_THAT(lines[3], HasSubstr("Z MemoryPressure is true: "));
  EXPECT_THAT(lines[6], EndsWith("Z evicting shop/catalog: memory.available 511.96Mi < 512Mi"));
  EXPECT_THAT(lines[7],
              EndsWith("Z no longer met with the memory that is being released: memory.available "
                       "512Mi, threshold 512Mi"));
  EXPECT_THAT(lines[10], StartsWith("2026-03-14T09:43:22.111Z evicted shop/catalog: "));
  EXPECT_TRUE(
      std::ranges::is_sorted(lines, {}, [](const auto& line) { return line.substr(0, 24); }));
}

TEST_F(EventsCommand, KindsTimesAndACountSelect) {
  const auto all = events();
  EXPECT_THAT(events({"--kind", "oom-kill, kill"}), ElementsAre(all[1], all[6], all[10]));
  EXPECT_THAT(events({"--kind", "run"}), ElementsAre(all[0]));
  EXPECT_THAT(events({"-n", "2"}), ElementsAre(all[10], all[11]));
  EXPECT_EQ(events({"--limit", "99"}), all);
  EXPECT_THAT(events({"--since", "2026-03-14T09:43:22.111Z"}), ElementsAre(all[10], all[11]));
  EXPECT_THAT(events({"--until", "2026-03-14 09:42"}), ElementsAre(all[0], all[1]));
  EXPECT_THAT(events({"--since", "2026-03-14T10:43:23+01:00", "--until", "2026-03-14 09:43:28"}),
              ElementsAre(all[11]));
  EXPECT_THAT(events({"--until", "500000h"}), IsEmpty());
}

TEST_F(EventsCommand, RefusesAnUnknownTimeOrKind) {
  const auto refused = [&](const std::string& option, const std::string& value) {
    const Ran ran = run_forestall({"events", file_, option, value});
    EXPECT_EQ(ran.exit_code, 2) << option;
    EXPECT_EQ(ran.output, "");
    return ran.errors;
  };
  EXPECT_EQ(refused("--since", "yesterday"),
            "forestall events: --since: expected a time before now like 10m or 2h, or a time like "
            "2025-03-14T10:11:12Z or '2025-03-14 10:11' (UTC), found 'yesterday'\n");
  EXPECT_THAT(refused("--until", "noon"), HasSubstr("--until: expected a time"));
  EXPECT_EQ(refused("--kind", "kill,murder"),
            "forestall events: --kind: unknown kind 'murder'; use: kill, oom-kill, crossing, "
            "condition, decision, reload, run, lost\n");
  EXPECT_THAT(refused("-n", "0"), HasSubstr("invalid number '0'; use a whole number from 1"));
  const Ran order = run_forestall({"events", file_, "--since", "1h", "--until", "2h"});
  EXPECT_EQ(order.exit_code, 2);
  EXPECT_EQ(order.errors, "forestall events: --since is after --until\n");
}

TEST_F(EventsCommand, JsonHasOneEventPerLine) {
  const auto lines = events({"-o", "json", "--kind", "kill,oom-kill,run"});
  ASSERT_EQ(lines.size(), 4U);
  std::vector<v1::Event> parsed(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_TRUE(messages::from_json(lines[i], parsed[i])) << lines[i];
  }
  EXPECT_EQ(parsed[0].run().facts().pid(), 4711);
  EXPECT_TRUE(parsed[1].has_oom_kill());
  EXPECT_EQ(parsed[2].decision().victim(), "shop/catalog");
  EXPECT_EQ(parsed[3].outcome().state(), v1::KillProgress::RELEASED);
}

TEST_F(EventsCommand, NamesAreSafeForATerminal) {
  Incident incident;
  incident.evil_names = true;
  const std::string evil = tree_ / "evil";
  write_incident(evil, incident);
  const auto lines = events_of(evil);
  EXPECT_EQ(lines.size(), 12U);
  for (const std::string& line : lines) {
    EXPECT_TRUE(std::ranges::none_of(line, [](unsigned char c) { return c < 0x20; })) << line;
  }
}

TEST_F(EventsCommand, ATruncatedRecordingIsReadUpToItsCut) {
  const std::string bytes = read_text(file_);
  tree_.write("cut", bytes.substr(0, bytes.size() - 100));
  const Ran ran = run_forestall({"events", tree_ / "cut"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.output, HasSubstr("Z evicted shop/catalog: "));
  EXPECT_THAT(ran.errors, StartsWith("forestall events: " + (tree_ / "cut") +
                                     ": truncated within a chunk at "));
}

TEST_F(EventsCommand, AFileThatIsNoRecordingIsAnError) {
  tree_.write("empty", "");
  tree_.write("ring/notes.txt", "");
  const auto errors = [&](const std::string& name) {
    const Ran ran = run_forestall({"events", tree_ / name});
    EXPECT_EQ(ran.exit_code, 2) << name;
    EXPECT_EQ(ran.output, "") << name;
    return ran.errors;
  };
  EXPECT_THAT(errors("empty"), HasSubstr("empty: not a Forestall recording\n"));
  EXPECT_THAT(errors("ring"), HasSubstr("ring: contains no recording\n"));
  EXPECT_THAT(errors("none"), HasSubstr("none: No such file or directory\n"));
}

TEST_F(EventsCommand, WithoutAnAgentThereIsNoRecordingToRead) {
  const Ran ran = run_forestall({"events", "--run-dir", tree_.path()});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, StartsWith("forestall events: no agent listens at " +
                                     (tree_ / "forestall.sock") + "; start one"));
}

TEST_F(EventsCommand, RunsAndReloadsOfARingAreEvents) {
  const std::string ring = tree_ / "ring";
  record_ring_across_a_reboot(ring,
                              policy::config({policy::hard(Signal::memory_available, mib(9))}));
  EXPECT_THAT(events_of(ring),
              ElementsAre(StartsWith("2023-11-14T22:15:00.000Z the agent begins to record: "),
                          "2023-11-14T22:15:05.000Z another configuration is in force",
                          EndsWith("; nothing is recorded of the 1m0s before"),
                          "2023-11-14T22:16:25.000Z another configuration is in force"));
}

TEST(LastEvents, KeepsNoMoreThanItPrints) {
  cli::LastEvents<int> last(3);
  for (int i = 0; i < 1000; ++i) {
    // The end of a kill may come after later events.
    last.add(0, i % 2 == 0 ? i : 1000 - i, i);
    EXPECT_LE(last.size(), 3U);
  }
  last.add(0, 999, 1);  // added last among equals
  last.add(1, 5, 2);    // a later run, whose clock began anew
  std::vector<int> kept;
  last.visit([&](int item) { kept.push_back(item); });
  EXPECT_THAT(kept, ElementsAre(1, 1, 2));
}

// `forestall events --follow` with its output in a file.
class FollowRun {
 public:
  FollowRun(const TempTree& tree, std::vector<std::string> arguments)
      : directory_(tree.path()), out_(tree / "out") {
    arguments.insert(arguments.begin(), {forestall_executable(), "events", "--follow"});
    child_.emplace([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int out = ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      return run_program(arguments, out, -1);
    });
  }
  // Waits until as many lines are printed.
  [[nodiscard]] std::vector<std::string> lines(std::size_t count) const {
    std::vector<std::string> all;
    (void)wait_for_files(directory_, child_->pidfd(), [&] {
      all = lines_of(::access(out_.c_str(), F_OK) == 0 ? read_text(out_) : "");
      return all.size() >= count;
    });
    return all;
  }
  [[nodiscard]] Child& child() { return *child_; }

 private:
  const std::string directory_;
  const std::string out_;
  std::optional<Child> child_;
};

TEST_F(EventsCommand, FollowContinuesUntilTheRecordingIsClosed) {
  const std::string file = tree_ / "growing";
  RecordedRun run({file, false}, {});
  Observation observation;
  observation.at = policy::second(100);
  run.evaluate(observation);
  const auto reload = [&](int second) {
    run.reload(policy::config({policy::hard(Signal::memory_available, mib(second))}));
    observation.at = policy::second(second);
    run.evaluate(observation);
  };
  FollowRun follow(tree_, {file});
  EXPECT_THAT(follow.lines(1), ElementsAre(HasSubstr(" the agent begins to record: ")));
  reload(101);
  EXPECT_EQ(follow.lines(2).back(), "2023-11-14T22:15:01.000Z another configuration is in force");
  reload(102);
  reload(103);
  EXPECT_EQ(follow.lines(4).size(), 4U);
  run.end();
  ASSERT_TRUE(follow.child().wait_exit());
  EXPECT_EQ(follow.child().reap(), 0);
  EXPECT_EQ(follow.lines(4).size(), 4U);
}

TEST_F(EventsCommand, FollowBeginsWithTheLastTen) {
  const std::string file = tree_ / "many";
  RecordedRun run({file, false}, {});
  Observation observation;
  for (int second = 100; second < 120; ++second) {
    run.reload(policy::config({policy::hard(Signal::memory_available, mib(second))}));
    observation.at = policy::second(second);
    run.evaluate(observation);
  }
  run.end();
  const auto all = events_of(file);
  ASSERT_EQ(all.size(), 20U);
  EXPECT_EQ(events_of(file, {"-f"}), std::vector(all.end() - 10, all.end()));
  EXPECT_EQ(events_of(file, {"-f", "-n", "3"}), std::vector(all.end() - 3, all.end()));
  EXPECT_EQ(events_of(file, {"-f", "--since", "2023-11-14 22:15"}), all);
  const Ran until = run_forestall({"events", file, "-f", "--until", "1h"});
  EXPECT_EQ(until.exit_code, 2);
  EXPECT_THAT(until.errors, HasSubstr("--until excludes --follow"));
}

// `forestall events --follow | head -1`.
TEST_F(EventsCommand, FollowEndsWithTheReaderOfItsOutput) {
  const std::string file = tree_ / "open";
  RecordedRun run({file, false}, {});
  Observation observation;
  observation.at = policy::second(100);
  run.evaluate(observation);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  Child follow([&] {
    return run_program({forestall_executable(), "events", "--follow", file}, write_end.get(), -1);
  });
  write_end.reset();
  char byte = 0;
  ASSERT_EQ(::read(read_end.get(), &byte, 1), 1);
  read_end.reset();
  EXPECT_TRUE(follow.wait_exit());
}

// Kubernetes starts and ends pods: the agent then has another list of pods, not other settings.
TEST_F(EventsCommand, AnotherPodListIsNoReload) {
  const std::string file = tree_ / "pods";
  Config config = policy::config({policy::hard(Signal::memory_available, mib(9))});
  RecordedRun run({file, false}, config);
  Observation observation;
  observation.at = policy::second(100);
  run.evaluate(observation);
  Pod pod;
  pod.uid = "uid";
  config.known_pods.push_back(std::make_shared<const Pod>(pod));
  run.reload(config);
  observation.at = policy::second(101);
  run.evaluate(observation);
  run.end();
  EXPECT_THAT(events_of(file), ElementsAre(HasSubstr(" begins to record: ")));
}

}  // namespace
}  // namespace forestall::test
