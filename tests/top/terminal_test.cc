// SPDX-License-Identifier: Apache-2.0
// `forestall top` in a terminal (tmux), with an agent and without one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <regex>

#include "cli/agent_process.h"
#include "forestall/internal/top.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"
#include "top/tmux_run.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// The kernel's own number (proc_pid_statm(5)).
double resident_mib(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024 * 1024);
}

class TopTerminal : public testing::Test {
 protected:
  void SetUp() override {
    scratch_.limit(scratch_.path(), mib(256));
    big_.emplace(scratch_, scratch_.child("big"), mib(48));
    small_.emplace(scratch_, scratch_.child("small"), mib(8));
    ASSERT_TRUE(big_->alive());
    directory_.write("config.yaml",
                     fmt::format("evictionHard: {{}}\npods: {{enabled: false}}\n"
                                 "watch: [{{cgroup: {0}, available: 16Mi}}]\n"
                                 "workloads: [{{cgroup: {0}/big, name: the-big-one}}, "
                                 "{{cgroup: {0}/small, name: the-small-one}}]\n",
                                 scratch_.path()));
  }

  // The command line of a `forestall top` that reads the workloads of this test.
  [[nodiscard]] std::string command(const std::string& more = "") const {
    return fmt::format("{} top --config {} --run-dir {} --interval 200ms {}",
                       forestall_executable(), directory_ / "config.yaml", run_directory(), more);
  }
  [[nodiscard]] std::string run_directory() const { return directory_ / "run"; }

  ScratchCgroup scratch_;
  std::optional<Hog> big_;
  std::optional<Hog> small_;
  TempTree directory_{{"run/", ""}};
};

// The state after the program: the earlier screen, no mouse, the cursor, the echo.
void expect_restored(const TmuxRun& tmux, const std::string& ending) {
  const std::string screen = tmux.wait_for("echo");
  EXPECT_THAT(screen, HasSubstr(ending));
  EXPECT_THAT(screen, HasSubstr("echoes"));
  EXPECT_EQ(tmux.ask("#{alternate_on} #{mouse_any_flag} #{cursor_flag}"), "0 0 1") << screen;
}

TEST_F(TopTerminal, ShowsTheNodeWithoutAnAgentAndRestoresTheTerminal) {
  const TmuxRun tmux(command(), 140, 40);
  const std::string screen = tmux.wait_for("the-big-one");
  EXPECT_THAT(screen, HasSubstr("no agent: observing only"));
  EXPECT_THAT(screen, HasSubstr("memory"));
  EXPECT_THAT(screen, HasSubstr("the-small-one"));
  EXPECT_THAT(screen, HasSubstr("next victim: the-big-one"));
  EXPECT_LT(screen.find("1 the-big-one"), screen.find("2 the-small-one"));
  EXPECT_EQ(tmux.ask("#{alternate_on} #{mouse_any_flag} #{cursor_flag}"), "1 1 0");
  tmux.press({"q"});
  expect_restored(tmux, "ended 0");
}

TEST_F(TopTerminal, KeysSwitchTheOrderFilterAndHelp) {
  const TmuxRun tmux(command(), 140, 40);
  // tmux may be read while the screen is drawn, from the top.
  const auto expect_order = [&](const std::string& reason, const std::string& other_order) {
    EXPECT_THAT(tmux.wait_for_order(reason, other_order),
                testing::AllOf(HasSubstr(reason), HasSubstr(other_order)));
  };
  expect_order("next, by over-request", "k kernel order");
  tmux.press({"k"});
  expect_order("next, by kernel-badness", "k kubelet order");
  tmux.press({"?"});
  EXPECT_THAT(tmux.wait_for("square root"), HasSubstr("press any key to return"));
  tmux.press({"x", "/", "s", "m", "a", "l", "Enter"});
  EXPECT_THAT(tmux.wait_without("1 the-big-one"), HasSubstr("the-small-one"));
  tmux.press({"Escape", "p"});
  EXPECT_THAT(tmux.wait_for("paused"), HasSubstr("the-big-one"));
  tmux.press({"q"});
  expect_restored(tmux, "ended 0");
}

TEST_F(TopTerminal, EnterShowsTheProcessesOfAWorkload) {
  const TmuxRun tmux(command(), 80, 24);
  (void)tmux.wait_for("2 the-small-one");
  tmux.press({"Down", "Enter"});
  const std::string row = fmt::format("{} ", big_->pid());
  const std::string screen = tmux.wait_for(row);
  EXPECT_THAT(screen, HasSubstr("processes of the-big-one"));
  EXPECT_THAT(screen, HasSubstr("1 process, "));
  std::smatch shown;
  ASSERT_TRUE(std::regex_search(screen, shown, std::regex(row + "[^ ]+ +([0-9.]+)M"))) << screen;
  EXPECT_NEAR(std::stod(shown[1]), resident_mib(big_->pid()), 1);
  big_.reset();
  EXPECT_THAT(tmux.wait_for("no processes"), HasSubstr("no processes"));
  tmux.press({"Escape"});
  EXPECT_THAT(tmux.wait_for_order("2 the-", "k kernel order"), HasSubstr("k kernel order"));
}

TEST_F(TopTerminal, TakesTheMouse) {
  const TmuxRun tmux(command(), 140, 40);
  const std::string screen = tmux.wait_for("2 the-small-one");
  const auto row = std::count(
      screen.begin(), screen.begin() + static_cast<std::ptrdiff_t>(screen.find("2 the-sm")), '\n');
  tmux.mouse(10, static_cast<int>(row));
  EXPECT_THAT(tmux.wait_for("number 2: the-small-one"), HasSubstr("number 2: the-small-one"));
  tmux.mouse(10, static_cast<int>(row) - 2);
  // By name, then in reverse.
  tmux.mouse(10, static_cast<int>(row) - 2);
  // The heading is drawn before the rows.
  const std::string turned = tmux.wait_for_order("2 the-small-one", "1 the-big-one");
  EXPECT_THAT(turned, HasSubstr("workload▲"));
  EXPECT_LT(turned.find("2 the-small-one"), turned.find("1 the-big-one")) << turned;
}

TEST_F(TopTerminal, FollowsTheSizeOfTheTerminal) {
  const TmuxRun tmux(command(), 200, 60);
  EXPECT_THAT(tmux.wait_for("the-big-one"), HasSubstr("interval"));
  tmux.resize(40, 10);
  // The screen is cleared before it is drawn again, from the top.
  (void)tmux.wait_without("interval");
  const std::string narrow = tmux.wait_for("the-big-one");
  EXPECT_THAT(narrow, HasSubstr("no agent"));
  EXPECT_THAT(narrow, HasSubstr("the-big-one"));
  tmux.resize(140, 40);
  EXPECT_THAT(tmux.wait_for("interval"), HasSubstr("next victim: the-big-one"));
}

TEST_F(TopTerminal, PutsTheTerminalBackOnEverySignal) {
  for (const auto& [signal, ending] : {std::pair{SIGTERM, "ended 0"},
                                       {SIGINT, "ended 0"},
                                       {SIGHUP, "ended 0"},
                                       {SIGSEGV, "ended 139"},
                                       {SIGABRT, "ended 134"}}) {
    const TmuxRun tmux(command(), 100, 30);
    EXPECT_THAT(tmux.wait_for("the-big-one"), HasSubstr("the-big-one"));
    ASSERT_GT(tmux.program(), 1);
    ASSERT_EQ(::kill(tmux.program(), signal), 0);
    expect_restored(tmux, ending);
  }
}

TEST_F(TopTerminal, ShowsAnAgentThatEndsAndReturns) {
  const auto start = [&] {
    return cli::AgentProcess::start(forestall_executable(),
                                    {"--config", directory_ / "config.yaml"}, run_directory());
  };
  std::optional<Result<cli::AgentProcess>> agent(start());
  ASSERT_TRUE(*agent) << agent->error().text();
  const TmuxRun tmux(command(), 140, 40);
  const auto reported = fmt::format("agent 0.1.0 pid {}", (*agent)->pid());
  EXPECT_THAT(tmux.wait_for(reported), HasSubstr(reported));
  EXPECT_THAT(tmux.wait_for("the-big-one"), HasSubstr("next victim: the-big-one"));
  agent.reset();
  EXPECT_THAT(tmux.wait_for("no agent"), HasSubstr("connection lost"));
  EXPECT_THAT(tmux.wait_for("the-big-one"), HasSubstr("the-big-one"));
  agent.emplace(start());
  ASSERT_TRUE(*agent) << agent->error().text();
  const auto again = fmt::format("agent 0.1.0 pid {}", (*agent)->pid());
  EXPECT_THAT(tmux.wait_for(again), HasSubstr(again));
}

TEST_F(TopTerminal, WithoutColorsThereAreNone) {
  const TmuxRun plain("env NO_COLOR=1 " + command(), 140, 40);
  (void)plain.wait_for("the-big-one");
  EXPECT_THAT(plain.coloured_screen(), Not(HasSubstr("[38;5;")));
  const TmuxRun coloured(command(), 140, 40);
  (void)coloured.wait_for("the-big-one");
  EXPECT_THAT(coloured.coloured_screen(), HasSubstr("38;5;"));
}

TEST_F(TopTerminal, AsciiWhereTheLocaleHasNoMore) {
  const TmuxRun tmux("env LC_ALL=C " + command(), 140, 40);
  const std::string screen = tmux.wait_for("the-big-one");
  // The used share of the bar depends on the host.
  EXPECT_THAT(screen, testing::ContainsRegex("memory +[#=.]{20}"));
  for (const char each : screen) EXPECT_GE(each, 0) << screen;
}

TEST_F(TopTerminal, OnceNeedsNoTerminal) {
  const std::vector<std::string> arguments{"top",        "--config",  directory_ / "config.yaml",
                                           "--once",     "--run-dir", run_directory(),
                                           "--interval", "100ms"};
  const Ran text = run_forestall(arguments);
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("no agent"));
  EXPECT_THAT(text.output, HasSubstr("next victim: the-big-one"));
  auto as_json = arguments;
  as_json.insert(as_json.end(), {"--output", "json", "--ranking", "kernel"});
  const Ran json = run_forestall(as_json);
  EXPECT_EQ(json.exit_code, 0) << json.errors;
  internal::TopReport report;
  const auto read = messages::from_json(json.output, report);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(report.ranking(), "kernel");
  EXPECT_EQ(report.ranking_in_force(), "kubelet");
  ASSERT_EQ(report.workloads_size(), 2);
  EXPECT_TRUE(report.workloads(0).candidate().key().has_badness());
}

TEST_F(TopTerminal, UsesTheSocketOfItsConfiguration) {
  const std::string config = read_text(directory_ / "config.yaml");
  const std::string other = directory_ / "other.yaml";
  directory_.write("other.yaml", config + "apiSocket: " + (directory_ / "api.sock") + "\n");
  const auto agent =
      cli::AgentProcess::start(forestall_executable(), {"--config", other}, run_directory());
  ASSERT_TRUE(agent) << agent.error().text();
  const std::vector<std::string> arguments{"top",    "--config",   other,
                                           "--once", "--interval", "100ms"};
  EXPECT_THAT(run_forestall(arguments).output,
              HasSubstr(fmt::format("agent 0.1.0, pid {}", agent->pid())));
  directory_.write("other.yaml", config + "apiSocket: 'off'\n");
  const Ran off = run_forestall(arguments);
  EXPECT_EQ(off.exit_code, 0) << off.errors;
  EXPECT_THAT(off.output, HasSubstr("apiSocket is off in the configuration"));
}

TEST_F(TopTerminal, ReportsCommandLineErrors) {
  const Ran no_terminal = run_forestall({"top", "--config", directory_ / "config.yaml"});
  EXPECT_EQ(no_terminal.exit_code, 2);
  EXPECT_THAT(no_terminal.errors, HasSubstr("--once"));
  EXPECT_EQ(run_forestall({"top", "--interval", "1ms"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"top", "--ranking", "size"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"top", "-o", "json"}).exit_code, 2) << "needs --once";
  const TmuxRun unknown("env TERM=no-such-thing " + command(), 140, 40);
  EXPECT_THAT(unknown.wait_for("ended"), HasSubstr("unknown terminal 'no-such-thing'"));
}

}  // namespace
}  // namespace forestall::test
