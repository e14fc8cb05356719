// SPDX-License-Identifier: Apache-2.0
#include "cluster/paced_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "support/child.h"

namespace forestall::cluster {
namespace {

// Standard error as a pipe that is not read before count_lines().
class UnreadErrors {
 public:
  UnreadErrors() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_.reset(ends[0]);
    const UniqueFd write(ends[1]);
    saved_.reset(::dup(STDERR_FILENO));
    ::dup2(write.get(), STDERR_FILENO);
  }
  ~UnreadErrors() {
    ::dup2(saved_.get(), STDERR_FILENO);
    if (reader_.joinable()) reader_.join();
  }
  UnreadErrors(const UnreadErrors&) = delete;
  UnreadErrors& operator=(const UnreadErrors&) = delete;

  void begin_to_read() {
    reader_ = std::thread([this] {
      std::array<char, 65536> chunk{};
      for (ssize_t got = 0; (got = ::read(read_.get(), chunk.data(), chunk.size())) > 0;) {
        lines_ += std::count(chunk.begin(), chunk.begin() + got, '\n');
      }
    });
  }
  // All that were written to it.
  std::ptrdiff_t count_lines() {
    ::dup2(saved_.get(), STDERR_FILENO);
    reader_.join();
    return lines_;
  }

 private:
  UniqueFd read_;
  UniqueFd saved_;
  std::thread reader_;
  std::ptrdiff_t lines_ = 0;
};

TEST(PacedLog, LosesNoLineOfALargePlan) {
  constexpr int kLines = 20'000;
  UnreadErrors errors;
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    PacedLog paced(log);
    for (int i = 0; i < kLines; ++i) {
      paced.write(exports::LogLevel::info, exports::LogLine("eviction").field("number", i));
    }
    paced.write(exports::LogLevel::debug, exports::LogLine("unwanted"));
    EXPECT_FALSE(paced.done()) << "and the writer was not blocked";
    EXPECT_EQ(paced.dropped(), 0U);
    errors.begin_to_read();
    const MonotonicTime deadline = SystemClock().now() + test::kPatience;
    while (!paced.done() && SystemClock().now() < deadline) {
      paced.advance();
      std::this_thread::yield();
    }
    EXPECT_TRUE(paced.done());
    EXPECT_EQ(paced.dropped(), 0U);
  }
  EXPECT_EQ(errors.count_lines(), kLines);
}

TEST(PacedLog, CountsLinesBeyondItsBound) {
  UnreadErrors errors;
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    PacedLog paced(log);
    // The pipe has 64 KiB, the log half of its queue.
    constexpr std::size_t kElsewhere = 4096;
    for (std::size_t i = 0; i < PacedLog::kWaitingMax + kElsewhere; ++i) {
      paced.write(exports::LogLevel::info, exports::LogLine("eviction"));
    }
    EXPECT_GT(paced.dropped(), 0U);
    errors.begin_to_read();
  }
}

}  // namespace
}  // namespace forestall::cluster
