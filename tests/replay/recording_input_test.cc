// SPDX-License-Identifier: Apache-2.0
// Reading a ring while its writer still writes.
#include "replay/recording_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "messages/recording_entries.h"
#include "recording/chunk.h"
#include "recording/destination.h"
#include "recording/segments.h"
#include "support/temp_tree.h"

namespace forestall::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An agent's ring, whose chunks have one key each.
class Ring {
 public:
  Ring(std::string path, std::int32_t pid) : destination_(opened(std::move(path), pid)) {}

  // With `size` bytes of a configuration that cannot be compressed.
  void write(std::int64_t second, std::size_t size = 0) {
    if (destination_.is_full()) {
      ASSERT_TRUE(destination_.begin_next());
    }
    Config config;
    WorkloadRule rule;
    rule.cgroup = "/" + std::string(size, 'x');
    for (char& each : rule.cgroup) each = static_cast<char>(each == '/' ? each : letter());
    config.workloads.push_back(rule);
    recording::ChunkBuilder chunk;
    chunk.begin_with_key();
    const MonotonicTime at = from_ns(second * 1'000'000'000);
    for (const std::string_view entry : encoder_.key(at, second * 1'000'000'000, config, {})) {
      chunk.append(entry, at);
    }
    ASSERT_TRUE(destination_.write(chunk));
  }
  void finish() { ASSERT_TRUE(destination_.finish()); }

 private:
  static recording::Destination opened(std::string path, std::int32_t pid) {
    messages::RecordingFacts facts;
    facts.pid = pid;
    auto opened =
        recording::Destination::open({std::move(path), false, mib(1)}, messages::encode(facts));
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  int letter() { return std::uniform_int_distribution<int>('A', 'z')(random_); }

  std::minstd_rand random_;
  messages::EntryEncoder encoder_;
  recording::Destination destination_;
};

class FollowedRing : public testing::Test {
 protected:
  [[nodiscard]] RecordingInput open() const {
    auto input = RecordingInput::open(path_);
    EXPECT_TRUE(input) << input.error().text();
    input->follow();
    return std::move(input).value();
  }
  // The seconds of the keys up to the present end.
  static std::vector<std::int64_t> read(RecordingInput& input) {
    std::vector<std::int64_t> seconds;
    for (;;) {
      const auto item = input.next();
      EXPECT_TRUE(item) << item.error().text();
      if (!item || !*item) return seconds;
      seconds.push_back(to_ns(std::get<messages::KeyEntry>((*item)->entry).at) / 1'000'000'000);
      if ((*item)->new_run) new_runs_.push_back(seconds.back());
      EXPECT_FALSE((*item)->after_loss && !(*item)->new_run);
    }
  }

  void TearDown() override { new_runs_.clear(); }

  const test::TempTree tree_;
  const std::string path_ = tree_ / "ring";
  static inline std::vector<std::int64_t> new_runs_;
};

TEST_F(FollowedRing, ContinuesInLaterSegments) {
  Ring ring(path_, 1);
  ring.write(1);
  RecordingInput input = open();
  EXPECT_THAT(read(input), ElementsAre(1));
  EXPECT_THAT(read(input), ElementsAre());
  // 40 times 60 KB in a ring of 1 MiB: it turns several times.
  for (int second = 2; second < 42; ++second) {
    ring.write(second, 60'000);
    EXPECT_THAT(read(input), ElementsAre(second));
  }
  EXPECT_GT(recording::segment_names(path_)->front(), "segment-0000000003.rec");
  EXPECT_FALSE(input.is_over());
  EXPECT_THAT(input.remarks(), ElementsAre());
  EXPECT_THAT(new_runs_, ElementsAre(1));
}

TEST_F(FollowedRing, ContinuesWithTheNextAgent) {
  std::optional<Ring> ring(std::in_place, path_, 1);
  ring->write(1);
  RecordingInput input = open();
  EXPECT_THAT(read(input), ElementsAre(1));
  ring->write(2);
  ring->finish();
  ring.emplace(path_, 2);
  EXPECT_THAT(read(input), ElementsAre(2)) << "the new segment has no entry yet";
  ring->write(3);
  EXPECT_THAT(read(input), ElementsAre(3));
  EXPECT_THAT(input.remarks(), ElementsAre());
  // An agent that was killed does not close its segment.
  ring.reset();
  ring.emplace(path_, 3);
  ring->write(4);
  EXPECT_THAT(read(input), ElementsAre(4));
  EXPECT_THAT(input.remarks(), ElementsAre(HasSubstr("not closed by its writer")));
  EXPECT_THAT(new_runs_, ElementsAre(1, 3, 4));
}

// The reader may see a segment before its header.
TEST_F(FollowedRing, WaitsForTheHeaderOfANewSegment) {
  Ring ring(path_, 1);
  ring.write(1);
  RecordingInput input = open();
  EXPECT_THAT(read(input), ElementsAre(1));
  const std::string next = path_ + "/segment-0000000009.rec";
  std::ofstream(next).close();
  EXPECT_THAT(read(input), ElementsAre());
  ring.write(2);
  EXPECT_THAT(read(input), ElementsAre(2));
  EXPECT_THAT(input.remarks(), ElementsAre());
}

TEST_F(FollowedRing, AClosedFileIsOver) {
  Ring ring(path_, 1);
  ring.write(1);
  ring.finish();
  auto file = RecordingInput::open(path_ + "/" + recording::segment_names(path_)->front());
  ASSERT_TRUE(file) << file.error().text();
  file->follow();
  EXPECT_THAT(read(*file), ElementsAre(1));
  EXPECT_TRUE(file->is_over());
}

}  // namespace
}  // namespace forestall::replay
