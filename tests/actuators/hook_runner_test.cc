// SPDX-License-Identifier: Apache-2.0
#include "actuators/hook_runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"
#include "support/child.h"
#include "support/file_changes.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Duration kLongHook = std::chrono::seconds(60);
constexpr Duration kShortHook = std::chrono::milliseconds(300);

class HookRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override { begin(FORESTALL_PREKILL); }

  void begin(const std::string& supervisor) {
    auto made = HookRunnerThread::create(supervisor);
    ASSERT_TRUE(made) << made.error().text();
    runner_ = std::move(*made);
    ASSERT_TRUE(runner_->start());
  }

  // A script that only this user can change. Its first argument is a file for its output.
  std::string script(const std::string& lines, const std::string& name = "hook") {
    std::string path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
    return path;
  }
  [[nodiscard]] std::string output_path() const { return folder_ / "output"; }
  [[nodiscard]] std::string output() const {
    std::ostringstream text;
    text << std::ifstream(output_path()).rdbuf();
    return text.str();
  }

  void run_program(const std::string& path, Duration time = kLongHook, std::uint64_t run = 1) {
    HookRequest request;
    request.run = run;
    request.hook.program = path;
    request.hook.arguments = {output_path()};
    request.until = until_ = SystemClock().now() + time;
    request.input = "{\"version\":1}\n";
    runner_->run(request);
  }
  void run_socket(const std::string& path, Duration time, const std::string& input = "{}\n") {
    HookRequest request;
    request.run = 1;
    request.hook.socket = path;
    request.until = until_ = SystemClock().now() + time;
    request.input = input;
    runner_->run(request);
  }

  // The next result; one without a run if there is none.
  HookResult result() {
    for (;;) {
      if (auto results = runner_->take_results(); !results.empty()) return results.front();
      pollfd there{runner_->fd(), POLLIN, 0};
      if (::poll(&there, 1, 20'000) <= 0) return {};
    }
  }

  // The process whose number is the output; it is there before the hook ends.
  [[nodiscard]] pid_t left_behind() {
    EXPECT_TRUE(
        test::wait_for_files(folder_.path(), -1, [this] { return output().ends_with('\n'); }));
    return static_cast<pid_t>(std::stol(output()));
  }
  static bool is_gone(pid_t pid) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process) return errno == ESRCH;
    pollfd ends{process.get(), POLLIN, 0};
    return ::poll(&ends, 1, 20'000) > 0;
  }

  const test::TempTree folder_;
  std::unique_ptr<HookRunnerThread> runner_;
  MonotonicTime until_;  // of the last request; a hook may begin late
};

constexpr const char* kLeavesAProcess = "setsid sleep 1000 & echo $! > $1";

TEST_F(HookRunnerTest, AProgramGetsTheRecordAndItsCodeIsReported) {
  run_program(script("cat > $1"), kLongHook, 7);
  const HookResult ended = result();
  EXPECT_EQ(ended.run, 7U);
  EXPECT_EQ(ended.state, HookState::succeeded) << ended.problem;
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_GT(ended.took, Duration{0});
  EXPECT_EQ(output(), "{\"version\":1}\n");

  run_program(script("exit 3"));
  const HookResult failed = result();
  EXPECT_EQ(failed.state, HookState::failed);
  EXPECT_EQ(failed.exit_code, 3);

  run_program(script("kill -9 $$"));
  const HookResult killed = result();
  EXPECT_EQ(killed.state, HookState::failed);
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
}

TEST_F(HookRunnerTest, AProgramThatHangsEndsAtItsTime) {
  run_program(script("trap '' TERM; setsid sleep 1000 & echo $! > $1; sleep 1000"), kShortHook);
  const HookResult ended = result();
  EXPECT_EQ(ended.state, HookState::timed_out);
  EXPECT_EQ(ended.exit_code, std::nullopt);
  EXPECT_GE(SystemClock().now(), until_);
  EXPECT_LT(ended.took, kLongHook);
  EXPECT_TRUE(is_gone(left_behind()));
}

TEST_F(HookRunnerTest, EndlessOutputDoesNotFillAnything) {
  run_program(script("yes; sleep 1000"), kShortHook);
  EXPECT_EQ(result().state, HookState::timed_out);
  run_program(script("head -c 10000000 /dev/zero; head -c 10000000 /dev/zero >&2"));
  EXPECT_EQ(result().state, HookState::succeeded) << "nothing waits for a reader";
}

TEST_F(HookRunnerTest, ADoubleForkInASessionOfItsOwnIsKilled) {
  run_program(script("setsid sh -c 'setsid sleep 1000 & echo $! > $0' $1; exit 0"));
  EXPECT_EQ(result().state, HookState::succeeded);
  EXPECT_TRUE(is_gone(left_behind()));
}

TEST_F(HookRunnerTest, AProgramHasNoPrivilegesNoDescriptorsAndItsOwnEnvironment) {
  const UniqueFd leaked(::fcntl(STDIN_FILENO, F_DUPFD, 200));
  ASSERT_TRUE(leaked);
  run_program(
      script("{ env; ls -l /proc/self/fd; cat /proc/self/status; cat /proc/$$/oom_score_adj; "
             "pwd; } > $1"));
  ASSERT_EQ(result().state, HookState::succeeded);
  EXPECT_THAT(output(), AllOf(HasSubstr("PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"),
                              Not(HasSubstr("HOME=")), HasSubstr("CapPrm:\t0000000000000000\n"),
                              HasSubstr("CapEff:\t0000000000000000\n"),
                              HasSubstr("NoNewPrivs:\t1\n"), HasSubstr("\n1000\n/\n"),
                              Not(HasSubstr(" 200 -> ")), Not(HasSubstr("eventfd"))));
}

TEST_F(HookRunnerTest, AFileThatOthersCanChangeIsNotRun) {
  const std::string path = script("echo ran > $1");
  ASSERT_EQ(::chmod(path.c_str(), 0775), 0);
  run_program(path);
  const HookResult writable = result();
  EXPECT_EQ(writable.state, HookState::refused);
  EXPECT_THAT(writable.problem, HasSubstr("mode 0775"));

  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  run_program(path);
  EXPECT_THAT(result().problem, HasSubstr("chmod +x"));

  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
  run_program(path);
  EXPECT_THAT(result().problem, HasSubstr("directory"));
  EXPECT_EQ(output(), "");
}

TEST_F(HookRunnerTest, AProgramCannotTakeBackItsPlaceBeforeTheKernelOrLockMemory) {
  if (::geteuid() != 0) GTEST_SKIP() << "not applicable: requires root";
  run_program(
      script("{ echo -1000 > /proc/$$/oom_score_adj; } 2>&1; { cat /proc/$$/oom_score_adj; "
             "cat /proc/$$/limits; } > $1"));
  ASSERT_NE(result().state, HookState::refused);
  EXPECT_THAT(output(), AllOf(testing::StartsWith("1000\n"),
                              testing::ContainsRegex("Max realtime priority +0 +0"),
                              testing::ContainsRegex("Max locked memory +0 +0")));
}

TEST_F(HookRunnerTest, AProgramThatKillsItsSupervisorEndsWithIt) {
  run_program(script("echo $$ > $1; kill -9 $PPID; sleep 1000"));
  EXPECT_EQ(result().state, HookState::failed);
  EXPECT_TRUE(is_gone(left_behind()));
}

// Before, they became children of pid 1, and stayed.
TEST_F(HookRunnerTest, AProgramThatKillsItsSupervisorLeavesNoProcess) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "not applicable: only root may mark them; the stage asan runs this as root";
  // The shell in between stays the parent of its sleep until it is killed itself.
  run_program(
      script("setsid sh -c 'sleep 1000 & echo $! > '$1'; wait' & "
             "while [ ! -s $1 ]; do sleep 0.01; done; kill -9 $PPID; sleep 1000"));
  EXPECT_EQ(result().state, HookState::failed);
  EXPECT_TRUE(is_gone(left_behind()));
  // Nothing of it is left that a further hook would have to wait for.
  run_program(script("exit 0", "further"));
  EXPECT_EQ(result().state, HookState::succeeded);
}

TEST_F(HookRunnerTest, OtherChildrenOfTheProcessAreNotKilledWithTheOrphans) {
  const test::Child other([] { return ::pause(); });
  run_program(script("setsid sleep 1000 & echo $! > $1; kill -9 $PPID; sleep 1000"));
  EXPECT_EQ(result().state, HookState::failed);
  EXPECT_TRUE(is_gone(left_behind()));
  EXPECT_FALSE(other.ended());
}

TEST_F(HookRunnerTest, AScriptWhoseInterpreterOthersCanChangeIsNotRun) {
  const std::string interpreter = script("echo ran > $2", "interpreter");
  ASSERT_EQ(::chmod(interpreter.c_str(), 0777), 0);
  const std::string path = folder_ / "indirect";
  std::ofstream(path) << "#!" << interpreter << "\n";
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  run_program(path);
  const HookResult refused = result();
  EXPECT_EQ(refused.state, HookState::refused);
  EXPECT_THAT(refused.problem, AllOf(HasSubstr("interpreter of " + path), HasSubstr("mode 0777")));
  EXPECT_EQ(output(), "");
}

// What was checked is what runs: here the file is replaced between the two.
TEST_F(HookRunnerTest, AFileThatIsReplacedAfterTheCheckDoesNotRun) {
  const std::string hook = script("echo checked > $1");
  const std::string other = script("echo replaced > $1", "other");
  begin(script("mv " + other + " " + hook + "; exec " FORESTALL_PREKILL " \"$@\"", "starter"));
  run_program(hook);
  EXPECT_EQ(result().state, HookState::succeeded);
  EXPECT_EQ(output(), "checked\n");
}

TEST_F(HookRunnerTest, AFileOfAnotherUserIsNotRunThroughALinkEither) {
  if (::geteuid() != 0) GTEST_SKIP() << "not applicable: requires root";
  const std::string path = script("echo ran > $1");
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const std::string link = folder_ / "link";
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  for (const std::string& each : {path, link}) {
    run_program(each);
    const HookResult refused = result();
    EXPECT_EQ(refused.state, HookState::refused);
    EXPECT_THAT(refused.problem, HasSubstr("owned by uid 65534"));
  }
  EXPECT_EQ(output(), "");
}

TEST_F(HookRunnerTest, WhatCannotBeStartedIsRefused) {
  run_program(folder_ / "missing");
  EXPECT_EQ(result().state, HookState::refused);
  run_program(script("", "empty"));
  EXPECT_EQ(result().state, HookState::succeeded);
  const std::string garbage = folder_ / "garbage";
  std::ofstream(garbage) << "no program";
  ASSERT_EQ(::chmod(garbage.c_str(), 0755), 0);
  run_program(garbage);
  const HookResult refused = result();
  EXPECT_EQ(refused.state, HookState::refused);
  EXPECT_THAT(refused.problem, HasSubstr("Exec format error"));
  for (const char* missing : {"/nonexistent/forestall-prekill", "forestall-prekill"}) {
    begin(missing);
    run_program(script("exit 0"));
    EXPECT_EQ(result().state, HookState::refused);
  }
}

TEST_F(HookRunnerTest, ConcurrencyIsBounded) {
  const std::string path = script("sleep 1000");
  for (std::uint64_t run = 1; run <= HookRunnerThread::kRunningMax + 1; ++run) {
    run_program(path, kLongHook, run);
  }
  const HookResult refused = result();
  EXPECT_EQ(refused.run, HookRunnerThread::kRunningMax + 1);
  EXPECT_EQ(refused.state, HookState::refused);
}

TEST_F(HookRunnerTest, ACancelEndsWhatRunsWithoutAResult) {
  run_program(script(std::string(kLeavesAProcess) + "; sleep 1000"));
  const pid_t pid = left_behind();
  runner_->cancel();
  EXPECT_TRUE(is_gone(pid));
  run_program(script("exit 5"), kLongHook, 2);
  EXPECT_EQ(result().run, 2U);
}

TEST_F(HookRunnerTest, ACancelOfARunLeavesTheOthers) {
  run_program(script(std::string(kLeavesAProcess) + "; sleep 1000"), kLongHook, 1);
  const pid_t pid = left_behind();
  const std::string go_on = folder_ / "go-on";
  run_program(script("until [ -e " + go_on + " ]; do :; done; exit 5", "other"), kLongHook, 2);
  runner_->cancel_runs({1});
  EXPECT_TRUE(is_gone(pid));
  run_program(script("exit 6", "later"), kLongHook, 1);  // a number may come again
  const HookResult later = result();
  EXPECT_EQ(later.run, 1U);
  EXPECT_EQ(later.exit_code, 6);
  std::ofstream(go_on) << "now\n";
  EXPECT_EQ(result().run, 2U);
}

TEST_F(HookRunnerTest, TheDestructorDoesNotWaitAndLeavesNoProcess) {
  run_program(script(std::string(kLeavesAProcess) + "; sleep 1000"));
  const pid_t pid = left_behind();
  const MonotonicTime before = SystemClock().now();
  runner_.reset();
  EXPECT_LT(SystemClock().now() - before, kLongHook);
  EXPECT_TRUE(is_gone(pid));
}

// --- sockets --------------------------------------------------------------------------------

class HookServer {
 public:
  explicit HookServer(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_.get(), 4), 0);
  }
  [[nodiscard]] UniqueFd accept() const {
    return UniqueFd(::accept(socket_.get(), nullptr, nullptr));
  }

 private:
  UniqueFd socket_;
};

TEST_F(HookRunnerTest, AServerGetsTheRecordAndItsCloseEndsTheHook) {
  const std::string path = folder_ / "socket";
  const HookServer server(path);
  const std::string input(1 << 20, 'x');  // more than the socket holds
  run_socket(path, kLongHook, input);
  UniqueFd client = server.accept();
  std::string received;
  std::array<char, 65536> part{};
  for (ssize_t size = 0; (size = ::read(client.get(), part.data(), part.size())) > 0;) {
    received.append(part.data(), static_cast<std::size_t>(size));
  }
  EXPECT_EQ(received, input);
  client.reset();
  EXPECT_EQ(result().state, HookState::succeeded);
}

TEST_F(HookRunnerTest, AServerThatNeverAnswersEndsAtItsTime) {
  const std::string path = folder_ / "socket";
  const HookServer server(path);
  run_socket(path, kShortHook);
  const HookResult ended = result();
  EXPECT_EQ(ended.state, HookState::timed_out);
  EXPECT_GE(SystemClock().now(), until_);
}

TEST_F(HookRunnerTest, AServerThatSendsTooMuchFails) {
  const std::string path = folder_ / "socket";
  const HookServer server(path);
  run_socket(path, kLongHook);
  const UniqueFd client = server.accept();
  const std::string much(80 << 10, 'x');
  static_cast<void>(::send(client.get(), much.data(), much.size(), MSG_NOSIGNAL));
  const HookResult ended = result();
  EXPECT_EQ(ended.state, HookState::failed);
  EXPECT_THAT(ended.problem, HasSubstr("64 KiB"));
}

TEST_F(HookRunnerTest, ASocketWithoutAServerOrOfAnotherUserIsRefused) {
  const std::string path = folder_ / "socket";
  run_socket(path, kLongHook);
  EXPECT_EQ(result().state, HookState::refused);
  run_socket(script("exit 0"), kLongHook);
  EXPECT_THAT(result().problem, HasSubstr("not a socket"));
  if (::geteuid() != 0) return;
  const HookServer server(path);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  run_socket(path, kLongHook);
  EXPECT_THAT(result().problem, HasSubstr("owned by uid 65534"));
}

}  // namespace
}  // namespace forestall::actuators
