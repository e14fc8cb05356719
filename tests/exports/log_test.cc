// SPDX-License-Identifier: Apache-2.0
#include "exports/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace forestall::exports {
namespace {

// Standard error replaced by a pipe that nobody reads, for the life of the object.
class BlockedStandardError {
 public:
  BlockedStandardError() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_.reset(ends[0]);
    const UniqueFd write(ends[1]);
    saved_.reset(dup(STDERR_FILENO));
    dup2(write.get(), STDERR_FILENO);
  }
  ~BlockedStandardError() {
    dup2(saved_.get(), STDERR_FILENO);
    if (drainer_.joinable()) drainer_.join();
  }
  // Lets the writer go on by taking what it wrote.
  std::string take_all_after_close() {
    dup2(saved_.get(), STDERR_FILENO);
    std::string all;
    std::array<char, 65536> chunk{};
    for (ssize_t got = 0; (got = read(read_.get(), chunk.data(), chunk.size())) > 0;) {
      all.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return all;
  }
  // Takes everything from now on, until nobody holds the writing end any more.
  void drain_in_background() {
    drainer_ = std::thread([this] {
      std::array<char, 65536> chunk{};
      while (read(read_.get(), chunk.data(), chunk.size()) > 0) {
      }
    });
  }

 private:
  UniqueFd read_;
  UniqueFd saved_;
  std::thread drainer_;
};

TEST(Log, AFullPipeNeverBlocksTheWriterAndTheLossIsCounted) {
  BlockedStandardError blocked;
  {
    Log log(Log::Stream::standard_error, /*stamped=*/false, LogLevel::info);
    const std::string text(1000, 'x');
    // More than the pipe and the queue hold together: returning at all is what is proven.
    constexpr int kLines = 20'000;
    for (int i = 0; i < kLines; ++i) log.write_text(LogLevel::info, text);
    EXPECT_GT(log.dropped(), 0u);
    blocked.drain_in_background();  // or the log could not end
  }
}

TEST(Log, LinesBelowTheLevelAreNotWritten) {
  BlockedStandardError captured;
  {
    Log log(Log::Stream::standard_error, /*stamped=*/false, LogLevel::warning);
    log.write_text(LogLevel::info, "not this");
    log.write_text(LogLevel::warning, "but this");
  }
  EXPECT_EQ(captured.take_all_after_close(), "but this\n");
}

TEST(Log, StampedLinesBeginWithTimeAndLevel) {
  BlockedStandardError captured;
  {
    Log log(Log::Stream::standard_error, /*stamped=*/true, LogLevel::info);
    log.write(LogLevel::info, LogLine("start"));
  }
  const std::string line = captured.take_all_after_close();
  EXPECT_EQ(line.find("Z info    event=start\n"), 26u) << line;
}

}  // namespace
}  // namespace forestall::exports
