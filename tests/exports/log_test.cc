// SPDX-License-Identifier: Apache-2.0
#include "exports/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "support/child.h"

namespace forestall::exports {
namespace {

// A standard stream replaced by an unread pipe while this object exists.
class BlockedStream {
 public:
  explicit BlockedStream(int stream) : stream_(stream) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_.reset(ends[0]);
    const UniqueFd write(ends[1]);
    saved_.reset(dup(stream_));
    dup2(write.get(), stream_);
  }
  ~BlockedStream() {
    dup2(saved_.get(), stream_);
    if (drainer_.joinable()) drainer_.join();
  }
  // Reads from the pipe, so that the writer continues.
  std::string take_all_after_close() {
    dup2(saved_.get(), stream_);
    std::string all;
    std::array<char, 65536> chunk{};
    for (ssize_t got = 0; (got = read(read_.get(), chunk.data(), chunk.size())) > 0;) {
      all.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return all;
  }
  // Waits for a line and reads what is there; empty: none came.
  std::string take_some() const {
    pollfd line{read_.get(), POLLIN, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(test::kPatience).count();
    std::array<char, 4096> chunk{};
    if (poll(&line, 1, static_cast<int>(ms)) != 1) return {};
    const ssize_t got = read(read_.get(), chunk.data(), chunk.size());
    return {chunk.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  // Reads everything from now on, until the last writing end is closed.
  void drain_in_background() {
    drainer_ = std::thread([this] {
      std::array<char, 65536> chunk{};
      while (read(read_.get(), chunk.data(), chunk.size()) > 0) {
      }
    });
  }

 private:
  const int stream_;
  UniqueFd read_;
  UniqueFd saved_;
  std::thread drainer_;
};

TEST(Log, AFullPipeNeverBlocksTheWriterAndTheLossIsCounted) {
  BlockedStream blocked(STDERR_FILENO);
  {
    Log log(Log::Stream::standard_error, /*stamped=*/false, LogLevel::info);
    const std::string text(1000, 'x');
    // More than the pipe and the queue hold together: that it returns is the proof.
    constexpr int kLines = 20'000;
    for (int i = 0; i < kLines; ++i) log.write_text(LogLevel::info, text);
    EXPECT_GT(log.dropped(), 0u);
    blocked.drain_in_background();  // or the log could not end
  }
}

// More than the pipe holds.
void fill(Log& log) {
  for (int i = 0; i < 100; ++i) log.write_text(LogLevel::info, std::string(4096, 'x'));
}

TEST(Log, AFullPipeDoesNotBlockTheOtherStream) {
  BlockedStream output(STDOUT_FILENO);
  BlockedStream errors(STDERR_FILENO);
  Log records(Log::Stream::standard_output, /*stamped=*/false, LogLevel::info);
  fill(records);
  EXPECT_FALSE(output.take_some().empty()) << "its thread writes";
  fill(records);
  Log log(Log::Stream::standard_error, /*stamped=*/false, LogLevel::info);
  log.write_text(LogLevel::info, "still there");
  EXPECT_EQ(errors.take_some(), "still there\n");
  output.drain_in_background();
}

// A suite of its own, which ctest runs as a process of its own: TSan ends the child of a process
// that had threads as soon as the child starts one.
TEST(LogAtExit, AFullPipeDoesNotKeepTheProgram) {
  std::fputs("unwritten text that a child must not inherit\n", stdout);
  test::Child program([] {
    BlockedStream output(STDOUT_FILENO);
    {
      Log records(Log::Stream::standard_output, /*stamped=*/false, LogLevel::info);
      fill(records);
    }
    std::exit(7);
    return 0;
  });
  ASSERT_TRUE(program.wait_exit());
  EXPECT_EQ(WEXITSTATUS(program.reap()), 7);
}

TEST(Log, LinesBelowTheLevelAreNotWritten) {
  BlockedStream captured(STDERR_FILENO);
  {
    Log log(Log::Stream::standard_error, /*stamped=*/false, LogLevel::warning);
    log.write_text(LogLevel::info, "not this");
    log.write_text(LogLevel::warning, "but this");
  }
  EXPECT_EQ(captured.take_all_after_close(), "but this\n");
}

TEST(Log, StampedLinesBeginWithTimeAndLevel) {
  BlockedStream captured(STDERR_FILENO);
  {
    Log log(Log::Stream::standard_error, /*stamped=*/true, LogLevel::info);
    log.write(LogLevel::info, LogLine("start"));
  }
  const std::string line = captured.take_all_after_close();
  EXPECT_EQ(line.find("Z info    event=start\n"), 26u) << line;
}

std::string logged(LogFormat format) {
  BlockedStream captured(STDERR_FILENO);
  {
    Log log(
        Log::Stream::standard_error, /*stamped=*/true, LogLevel::info, [] {}, format);
    log.write(LogLevel::warning, LogLine("note").field("problem", "a b"));
  }
  return captured.take_all_after_close();
}

TEST(Log, EachFormatHasTimeLevelAndLine) {
  const std::string text = logged(LogFormat::text);
  EXPECT_EQ(text.find("Z warning note: a b\n"), 23u) << text;
  const std::string logfmt = logged(LogFormat::logfmt);
  EXPECT_EQ(logfmt.find("Z warning event=note problem=\"a b\"\n"), 26u) << logfmt;
  const std::string json = logged(LogFormat::json);
  EXPECT_TRUE(json.starts_with("{\"time\":\"20")) << json;
  EXPECT_TRUE(json.ends_with("Z\",\"level\":\"warning\",\"event\":\"note\",\"problem\":\"a b\"}\n"))
      << json;
}

TEST(Log, SentencesAreTheDefaultOnATerminalOnly) {
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal);
  ASSERT_EQ(grantpt(terminal.get()), 0);
  ASSERT_EQ(unlockpt(terminal.get()), 0);
  const UniqueFd user(open(ptsname(terminal.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(user);
  const UniqueFd saved(dup(STDERR_FILENO));
  dup2(user.get(), STDERR_FILENO);
  const LogFormat on_terminal = default_log_format();
  dup2(saved.get(), STDERR_FILENO);
  EXPECT_EQ(on_terminal, LogFormat::text);
  const BlockedStream pipe(STDERR_FILENO);
  EXPECT_EQ(default_log_format(), LogFormat::logfmt);
}

}  // namespace
}  // namespace forestall::exports
