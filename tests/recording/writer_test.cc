// SPDX-License-Identifier: Apache-2.0
#include "recording/writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <thread>

#include "recording/reader.h"
#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::recording {
namespace {

using namespace std::chrono_literals;
using test::kPatience;

struct Read {
  std::vector<std::string> entries;
  std::vector<std::uint32_t> lost;  // before each chunk
  std::vector<std::size_t> keys;    // numbers of the entries that restart the history
  bool complete = false;
};

Read read_all(const std::string& path) {
  Read read;
  auto reader = Reader::open(path);
  if (!reader) return read;
  while (auto chunk = reader->next().value()) {
    read.lost.push_back(chunk->header.lost_entries);
    if (chunk->place.is_key()) read.keys.push_back(read.entries.size());
    std::string_view raw = chunk->raw;
    while (const auto entry = take_entry(raw)) read.entries.emplace_back(*entry);
  }
  EXPECT_TRUE(reader->damages().empty());
  read.complete = reader->is_complete();
  return read;
}

// Waits until `there` is true; evaluates it whenever a file of the directory changes.
bool wait_for(const std::string& directory, const std::function<bool()>& there) {
  const UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  inotify_add_watch(watch.get(), directory.c_str(), IN_MODIFY | IN_CREATE);
  const SystemClock clock;
  const MonotonicTime deadline = clock.now() + kPatience;
  while (!there()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock.now());
    pollfd changed{watch.get(), POLLIN, 0};
    if (left.count() <= 0 || poll(&changed, 1, static_cast<int>(left.count())) != 1) return false;
    std::array<char, 4096> events{};
    while (read(watch.get(), events.data(), events.size()) > 0) {
    }
  }
  return true;
}

class WriterTest : public testing::Test {
 protected:
  [[nodiscard]] Writer::Options options() const {
    Writer::Options options;
    options.target.path = path_;
    options.facts = "facts";
    return options;
  }
  test::TempTree tree_{{"d/", ""}};
  std::string path_ = tree_ / "d/recording";
};

TEST_F(WriterTest, WritesItsEntriesAndEndsTheFile) {
  auto writer = std::move(Writer::create(options()).value());
  EXPECT_TRUE(writer->take_key_request());
  EXPECT_FALSE(writer->take_key_request());
  EXPECT_TRUE(writer->give("key", from_ns(1), kEntryKey));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(writer->give(std::to_string(i), from_ns(i)));
  const auto totals = writer->close();
  ASSERT_TRUE(totals) << totals.error().text();
  EXPECT_EQ(totals->entries, 1001U);
  EXPECT_EQ(totals->lost_entries, 0U);
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(totals->file_bytes, static_cast<std::uint64_t>(file.st_size));
  EXPECT_EQ(file.st_mode & 0777, 0600U);
  const Read read = read_all(path_);
  ASSERT_EQ(read.entries.size(), 1001U);
  EXPECT_EQ(read.entries[1000], "999");
  EXPECT_THAT(read.keys, testing::ElementsAre(0));
  EXPECT_TRUE(read.complete);
}

TEST_F(WriterTest, OverwritesOnlyOnRequest) {
  tree_.write("d/recording", "precious");
  EXPECT_EQ(Writer::create(options()).error().code, EEXIST);
  EXPECT_EQ(test::read_text(path_), "precious");
  Writer::Options force = options();
  force.target.overwrite = true;
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  auto writer = Writer::create(force);
  ASSERT_TRUE(writer);
  EXPECT_TRUE((*writer)->close());
  EXPECT_TRUE(read_all(path_).complete);
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
  // Nothing reads it: that must not block.
  force.target.path = tree_ / "d/pipe";
  ASSERT_EQ(mkfifo(force.target.path.c_str(), 0600), 0);
  EXPECT_EQ(Writer::create(force).error().code, ENXIO);
  EXPECT_FALSE(Reader::open(force.target.path));
}

// Opening a pipe without a reader must not block.
TEST_F(WriterTest, RefusesAFifo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  Writer::Options force = options();
  force.target.overwrite = true;
  EXPECT_EQ(Writer::create(force).error().code, ENXIO);
}

TEST_F(WriterTest, RefusesADirectoryThatIsNotThere) {
  Writer::Options nowhere = options();
  nowhere.target.path = tree_ / "none/recording";
  EXPECT_EQ(Writer::create(nowhere).error().code, ENOENT);
}

// A disk that is mounted late does not block the writer, and the gap is reported.
TEST_F(WriterTest, OpensByItsThreadAsSoonAsItCan) {
  Writer::Options late = options();
  late.target = {tree_ / "late/ring", false, mib(1)};
  late.opened_by_thread = true;
  late.retry_after = 1ms;
  auto writer = std::move(Writer::create(late).value());
  writer->give("early", from_ns(1), kEntryKey);
  while (writer->trouble() == 0) std::this_thread::yield();
  EXPECT_EQ(writer->trouble(), ENOENT);
  EXPECT_EQ(writer->totals().files, 0U);
  std::filesystem::create_directory(tree_ / "late");
  const auto totals = writer->close();
  ASSERT_TRUE(totals) << totals.error().text();
  EXPECT_EQ(totals->entries, 1U);
  EXPECT_THAT(read_all(tree_ / "late/ring/segment-0000000001.rec").entries,
              testing::ElementsAre("early"));
}

TEST_F(WriterTest, LeavesItsDirectoryToTheNextOneAtOnce) {
  Writer::Options ring = options();
  ring.target = {tree_ / "ring", false, mib(1)};
  for (int i = 0; i < 50; ++i) {
    auto writer = Writer::create(ring);
    ASSERT_TRUE(writer) << i << ": " << writer.error().text();
    (*writer)->give("entry", from_ns(1), kEntryKey);
    ASSERT_TRUE((*writer)->close());
    auto next = Writer::create(ring);  // while the first one is still there
    ASSERT_TRUE(next) << i << ": " << next.error().text();
  }
}

TEST_F(WriterTest, HasEverythingOnDiskSoonWithoutBeingEnded) {
  Writer::Options soon = options();
  soon.flush_after = 1ms;
  auto writer = std::move(Writer::create(soon).value());
  writer->give("key", from_ns(1), kEntryKey);
  EXPECT_TRUE(wait_for(tree_ / "d", [&] { return read_all(path_).entries.size() == 1; }));
  writer->give("next", from_ns(2));
  EXPECT_TRUE(wait_for(tree_ / "d", [&] { return read_all(path_).entries.size() == 2; }));
  EXPECT_FALSE(read_all(path_).complete);
}

TEST_F(WriterTest, HasADecisionOnDiskAtOnce) {
  Writer::Options late = options();
  late.flush_after = 24h;
  auto writer = std::move(Writer::create(late).value());
  writer->give("key", from_ns(1), kEntryKey);
  writer->give("kill", from_ns(2), kEntryDurable);
  EXPECT_TRUE(wait_for(tree_ / "d", [&] { return read_all(path_).entries.size() == 2; }));
}

TEST_F(WriterTest, RequestsAKeyAgainAfterAMinuteOfEntries) {
  Writer::Options soon = options();
  soon.flush_after = 1ms;
  auto writer = std::move(Writer::create(soon).value());
  ASSERT_TRUE(writer->take_key_request());
  writer->give("key", from_ns(0), kEntryKey);
  writer->give("59 s", from_ns(59'000'000'000));
  ASSERT_TRUE(wait_for(tree_ / "d", [&] { return read_all(path_).entries.size() == 2; }));
  EXPECT_FALSE(writer->take_key_request());
  writer->give("60 s", from_ns(60'000'000'000));
  ASSERT_TRUE(wait_for(tree_ / "d", [&] { return read_all(path_).entries.size() == 3; }));
  EXPECT_TRUE(writer->take_key_request());
}

// A full disk, by a limit on the size of files.
class FullDisk {
 public:
  explicit FullDisk(rlim_t size) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{size, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(WriterTest, ContinuesWhenThereIsSpaceAgainAndReportsLosses) {
  Writer::Options small = options();
  small.queue_bytes = 64 << 10;
  small.flush_after = 1ms;
  small.retry_after = 1ms;
  auto writer = std::move(Writer::create(small).value());
  ASSERT_TRUE(writer->take_key_request());
  const std::string entry(1000, 'x');
  std::uint64_t given = 0;
  {
    const FullDisk full(1);
    // More than the queue and a chunk hold, until the thread has tried to write.
    while (writer->trouble() == 0 || writer->totals().lost_entries < 100) {
      if (writer->give(entry + std::to_string(given), from_ns(1))) ++given;
    }
    EXPECT_EQ(writer->trouble(), EFBIG);
    EXPECT_TRUE(writer->take_key_request());
  }
  const std::uint64_t lost = writer->totals().lost_entries;
  while (!writer->give("after", from_ns(2), kEntryKey)) {
  }
  const auto totals = writer->close();
  ASSERT_TRUE(totals) << totals.error().text();
  EXPECT_EQ(writer->trouble(), 0);
  EXPECT_EQ(totals->entries, given + 1);
  EXPECT_GE(totals->lost_entries, lost);
  const Read read = read_all(path_);
  EXPECT_TRUE(read.complete);
  ASSERT_EQ(read.entries.size(), given + 1);
  EXPECT_EQ(read.entries.back(), "after");
  // Each gap is reported exactly once, at its place.
  std::uint64_t reported = 0;
  for (const std::uint32_t each : read.lost) reported += each;
  EXPECT_EQ(reported, totals->lost_entries);
}

// A device that accepts bytes but cannot be synced: reported, and the recording continues.
TEST_F(WriterTest, ContinuesIfADecisionCannotBeSynced) {
  Writer::Options device = options();
  device.target = {"/dev/null", true};
  device.flush_after = 24h;
  device.retry_after = 1ms;
  auto writer = std::move(Writer::create(device).value());
  writer->give("kill", from_ns(1), kEntryKey | kEntryDurable);
  while (writer->trouble() == 0) std::this_thread::yield();
  EXPECT_EQ(writer->trouble(), EINVAL);
  writer->give("next", from_ns(2));
  EXPECT_EQ(writer->close().error().code, EINVAL);
  EXPECT_EQ(writer->totals().entries, 2U);
  EXPECT_EQ(writer->totals().lost_entries, 0U);
}

TEST_F(WriterTest, ReportsUnwrittenEntriesAtTheEnd) {
  auto writer = std::move(Writer::create(options()).value());
  const FullDisk full(1);
  writer->give("key", from_ns(1), kEntryKey);
  writer->give("one", from_ns(1));
  const auto closed = writer->close();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, EFBIG);
  EXPECT_EQ(writer->totals().lost_entries, 2U);
  EXPECT_EQ(writer->totals().entries, 0U);
}

TEST_F(WriterTest, KeepsWhatItWroteBeforeTheLimitOfItsFile) {
  Writer::Options bounded = options();
  bounded.target.file_max = Bytes{1024};
  bounded.flush_after = 24h;
  bounded.retry_after = 1ms;
  auto writer = std::move(Writer::create(bounded).value());
  writer->give("fits", from_ns(1), kEntryKey | kEntryDurable);
  ASSERT_TRUE(wait_for(tree_ / "d", [&] { return read_all(path_).entries.size() == 1; }));
  writer->give(std::string(4096, 'x'), from_ns(2), kEntryDurable);
  while (writer->trouble() == 0) std::this_thread::yield();
  EXPECT_EQ(writer->trouble(), EFBIG);
  EXPECT_EQ(writer->close().error().code, EFBIG);
  EXPECT_EQ(writer->totals().lost_entries, 1U);
  EXPECT_THAT(read_all(path_).entries, testing::ElementsAre("fits"));
}

TEST_F(WriterTest, BeginsASegmentAtAKeyOnly) {
  Writer::Options ring = options();
  ring.target.size_max = mib(1);
  ring.queue_bytes = 8 << 20;
  auto writer = std::move(Writer::create(ring).value());
  std::uint32_t random = 1;
  for (int i = 0; i < 3000; ++i) {
    std::string entry(1000, '\0');
    for (char& byte : entry)
      byte = static_cast<char>((random = random * 1664525 + 1013904223) >> 24);
    const bool key = i % 50 == 0;
    ASSERT_TRUE(writer->give(entry, from_ns(i), key ? std::uint32_t{kEntryKey} : 0));
  }
  const auto totals = writer->close();
  ASSERT_TRUE(totals) << totals.error().text();
  EXPECT_GT(totals->files, 10U);
  std::uint64_t bytes = 0;
  const auto names = segment_names(path_);
  for (const std::string& name : *names) {
    const Read read = read_all(path_ + "/" + name);
    EXPECT_TRUE(read.complete) << name;
    ASSERT_FALSE(read.keys.empty()) << name;
    EXPECT_EQ(read.keys.front(), 0U) << name;
    bytes += test::read_text(path_ + "/" + name).size();
  }
  EXPECT_LE(bytes, 1U << 20);
}

}  // namespace
}  // namespace forestall::recording
