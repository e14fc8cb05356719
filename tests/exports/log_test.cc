// SPDX-License-Identifier: Apache-2.0
#include "exports/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

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
  ~BlockedStandardError() { dup2(saved_.get(), STDERR_FILENO); }
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
  void drain(std::size_t bytes) {
    std::array<char, 65536> chunk{};
    for (std::size_t taken = 0; taken < bytes;) {
      const ssize_t got = read(read_.get(), chunk.data(), chunk.size());
      if (got <= 0) break;
      taken += static_cast<std::size_t>(got);
    }
  }

 private:
  UniqueFd read_;
  UniqueFd saved_;
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
    const auto kept = static_cast<std::size_t>(kLines) - log.dropped();
    blocked.drain((kept - 70) * 1001);  // the last 64 KiB fit into the pipe
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
