// SPDX-License-Identifier: Apache-2.0
// A subscriber gets everything in order; one that does not read is dropped; without subscribers
// there is no cost.
#include "exports/live_streams.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <string>

namespace forestall::exports {
namespace {

using namespace std::chrono_literals;

// Numbered frames of the size that a test needs.
class Numbers final : public LiveFrames {
 public:
  explicit Numbers(std::size_t padding = 0) : padding_(padding) {}

  void begin() override {
    note([&] { ++begun; });
  }
  PageUpdate frame(bool with_whole) override {
    note([&] { ++frames; });
    const std::string text = std::to_string(frames) + std::string(padding_, '.') + "\n";
    return {"+" + text, with_whole ? "=" + text : ""};
  }
  void end() override {
    note([&] { ++ended; });
  }

  // Until the condition is true.
  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, condition);
  }

  int begun = 0;
  int frames = 0;
  int ended = 0;

 private:
  template <typename Change>
  void note(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  std::size_t padding_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Two ends of a connection.
struct Ends {
  UniqueFd ours;
  UniqueFd theirs;
};
Ends connected() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::string line_of(int fd) {
  std::string line;
  char c = 0;
  pollfd polled{fd, POLLIN, 0};
  while (!line.ends_with('\n') && poll(&polled, 1, 60'000) == 1 && read(fd, &c, 1) == 1) line += c;
  return line;
}

class LiveStreamsTest : public testing::Test {
 protected:
  std::unique_ptr<LiveStreams> serve(LiveFrames& frames, Duration interval = 1ms) {
    auto streams = LiveStreams::create(frames, dropped_, interval);
    EXPECT_TRUE(streams) << streams.error().text();
    return std::move(*streams);
  }
  std::atomic<std::uint64_t> dropped_{0};
};

TEST_F(LiveStreamsTest, SendsTheWholePictureFirstThenUpdates) {
  Numbers numbers;
  const auto streams = serve(numbers);
  Ends a = connected();
  streams->add(std::move(a.theirs));
  EXPECT_EQ(line_of(a.ours.get()), "=1\n");
  EXPECT_EQ(line_of(a.ours.get()), "+2\n");
  EXPECT_EQ(line_of(a.ours.get()), "+3\n");
  Ends b = connected();
  streams->add(std::move(b.theirs));
  const std::string first = line_of(b.ours.get());
  ASSERT_TRUE(first.starts_with("=")) << first;
  EXPECT_EQ(line_of(b.ours.get()), "+" + std::to_string(std::stoi(first.substr(1)) + 1) + "\n");
}

TEST_F(LiveStreamsTest, MakesNoFramesWithoutSubscribers) {
  Numbers numbers;
  const auto streams = serve(numbers);
  for (int round = 1; round <= 3; ++round) {
    Ends ends = connected();
    streams->add(std::move(ends.theirs));
    EXPECT_TRUE(line_of(ends.ours.get()).starts_with("="));
    ends.ours.reset();
    ASSERT_TRUE(numbers.wait([&] { return numbers.ended == round; }));
    EXPECT_EQ(numbers.begun, round);
  }
  EXPECT_EQ(dropped_, 0U) << "a client that closes is not counted as dropped";
}

TEST_F(LiveStreamsTest, DropsOnlySubscribersThatDoNotRead) {
  Numbers numbers(LiveStreams::kWaitingMax / 4);
  // A reader that the machine delays for less than three of them is not dropped.
  const auto streams = serve(numbers, 200ms);
  Ends deaf = connected();
  Ends reader = connected();
  streams->add(std::move(deaf.theirs));
  streams->add(std::move(reader.theirs));
  std::string text(1 << 16, '\0');
  std::size_t frames = 0;
  while (dropped_ == 0 || frames < 8) {
    const ssize_t n = read(reader.ours.get(), text.data(), text.size());
    ASSERT_GT(n, 0);
    frames += static_cast<std::size_t>(std::count(text.data(), text.data() + n, '\n'));
  }
  EXPECT_EQ(dropped_, 1U);
}

TEST_F(LiveStreamsTest, AcceptsOneFrameOfAnySize) {
  Numbers numbers(LiveStreams::kWaitingMax + 1);
  const auto streams = serve(numbers, 1h);
  Ends reader = connected();
  streams->add(std::move(reader.theirs));
  std::string text(1 << 16, '\0');
  std::size_t bytes = 0;
  while (bytes <= LiveStreams::kWaitingMax) {
    const ssize_t n = read(reader.ours.get(), text.data(), text.size());
    ASSERT_GT(n, 0);
    bytes += static_cast<std::size_t>(n);
  }
  EXPECT_EQ(dropped_, 0U);
}

// Slow frames, and when each began and ended.
class Slow final : public LiveFrames {
 public:
  void begin() override {}
  PageUpdate frame(bool with_whole) override {
    const MonotonicTime began = SystemClock().now();
    if (ended_ && began - *ended_ < length_) ++in_haste;
    // Uses CPU, as reading the node does.
    do {
      ended_ = SystemClock().now();
      length_ = *ended_ - began;
    } while (length_ < 5ms);
    return {"+\n", with_whole ? "=\n" : ""};
  }
  void end() override {}

  std::atomic<int> in_haste{0};  // sooner after the one before than that took

 private:
  std::optional<MonotonicTime> ended_;
  Duration length_{0};
};

// If a frame takes long on a busy node, the next one is not requested at once.
TEST_F(LiveStreamsTest, ItRestsForAsLongAsAFrameTook) {
  Slow slow;
  const auto streams = serve(slow);
  Ends reader = connected();
  streams->add(std::move(reader.theirs));
  EXPECT_EQ(line_of(reader.ours.get()), "=\n");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(line_of(reader.ours.get()), "+\n");
  EXPECT_EQ(slow.in_haste, 0);
}

TEST_F(LiveStreamsTest, NoMoreThanItsBoundFollow) {
  Numbers numbers;
  const auto streams = serve(numbers, 1h);
  std::vector<Ends> all;
  for (std::size_t i = 0; i < LiveStreams::kFollowersMax; ++i) {
    EXPECT_FALSE(streams->full());
    all.push_back(connected());
    streams->add(std::move(all.back().theirs));
  }
  EXPECT_TRUE(streams->full());
  Ends late = connected();
  streams->add(std::move(late.theirs));
  EXPECT_EQ(line_of(late.ours.get()), "") << "it is closed at once";
}

TEST_F(LiveStreamsTest, EndsWithoutWaitingForSubscribers) {
  Numbers numbers(LiveStreams::kWaitingMax / 2);
  Ends deaf = connected();
  {
    const auto streams = serve(numbers, 1h);
    streams->add(std::move(deaf.theirs));
    ASSERT_TRUE(numbers.wait([&] { return numbers.frames == 1; }));
  }
  EXPECT_EQ(numbers.ended, 1);
}

}  // namespace
}  // namespace forestall::exports
