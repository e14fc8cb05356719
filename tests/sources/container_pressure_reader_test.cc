// SPDX-License-Identifier: Apache-2.0
// What is read of a container's memory pressure, from files. Plain files have no events.
#include "sources/container_pressure_reader.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "support/descriptors_used_up.h"
#include "support/small_node.h"

namespace forestall::sources {
namespace {

using namespace std::chrono_literals;

constexpr const char* kContainerPsi =
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
constexpr MonotonicTime kReadAt(1h);

class ContainerPressureFiles : public ::testing::Test {
 protected:
  ContainerPressureFiles() {
    auto found = kernel::CgroupTree::discover(node_ / "cgroup");
    EXPECT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    set("memory.events.local", "low 1\nhigh 20\nmax 3\noom 0\noom_kill 0\n");
    set("memory.events", "low 1\nhigh 999\nmax 999\noom 0\noom_kill 0\n");
    set("memory.pressure", kContainerPsi);
    set("memory.current", "4096\n");
    set("memory.high", "8192\n");
    set("memory.max", "max\n");
    id_ = *tree_.id_at("/c");
    auto made = ContainerPressureReader::create(tree_, {});
    EXPECT_TRUE(made) << made.error().text();
    reader_ = std::move(made).value();
  }
  void set(const std::string& file, const std::string& text) const {
    node_.write("cgroup/c/" + file, text);
  }
  void remove(const std::string& file) const {
    std::filesystem::remove(node_ / ("cgroup/c/" + file));
  }
  [[nodiscard]] Result<ContainerPressureReading> read() { return reader_->read(id_, kReadAt); }

  test::SmallNode node_{"/c"};
  kernel::CgroupTree tree_;
  CgroupId id_;
  std::unique_ptr<ContainerPressureReader> reader_;
};

// KEP-5986: events of the container itself; those below it are of others.
TEST_F(ContainerPressureFiles, TheCountersAreThoseOfTheCgroupItself) {
  ASSERT_TRUE(reader_->watch(id_, "/c", std::nullopt));
  const auto reading = read();
  ASSERT_TRUE(reading) << reading.error().text();
  EXPECT_EQ(*reading, (ContainerPressureReading{id_, kReadAt, 20, 3, 1500us, Bytes{4096},
                                                Bytes{8192}, kNoMemoryLimit}));
}

TEST_F(ContainerPressureFiles, BeforeLinux52TheyIncludeThoseBelowIt) {
  remove("memory.events.local");
  ASSERT_TRUE(reader_->watch(id_, "/c", std::nullopt));
  EXPECT_EQ(read()->high_events, 999U);
}

TEST_F(ContainerPressureFiles, WithoutEventsItIsNotWatched) {
  remove("memory.events.local");
  remove("memory.events");
  EXPECT_FALSE(reader_->watch(id_, "/c", std::nullopt));
  EXPECT_FALSE(reader_->watches(id_));
}

TEST_F(ContainerPressureFiles, AnotherCgroupAtItsPathIsNotWatched) {
  const auto done = reader_->watch(CgroupId{id_.inode + 1}, "/c", std::nullopt);
  ASSERT_FALSE(done);
  EXPECT_TRUE(kernel::is_removed(done.error()));
}

// What cannot be read is no "max", and no value at all.
TEST_F(ContainerPressureFiles, EachUnreadableFileMakesTheReadingMissing) {
  for (const char* file : {"memory.current", "memory.high", "memory.max", "memory.pressure"}) {
    SCOPED_TRACE(file);
    set(file, "nonsense\n");
    reader_->forget(id_);
    ASSERT_TRUE(reader_->watch(id_, "/c", std::nullopt));
    EXPECT_FALSE(read());
    set(file, std::string(file) == "memory.pressure" ? kContainerPsi : "max\n");
  }
}

TEST_F(ContainerPressureFiles, WithoutDescriptorsTheReadingIsMissing) {
  ASSERT_TRUE(reader_->watch(id_, "/c", std::nullopt));
  {
    const test::DescriptorsUsedUp none;
    const auto reading = read();
    ASSERT_FALSE(reading);
    EXPECT_EQ(reading.error().code, EMFILE);
  }
  EXPECT_TRUE(read()) << "it is watched still";
}

// cgroup.pressure of a tenant's own cgroup namespace: 0, and 1 again.
TEST_F(ContainerPressureFiles, PsiThatIsTurnedOffIsUnknownUntilItIsBack) {
  remove("memory.pressure");
  ASSERT_TRUE(reader_->watch(id_, "/c", 40.0));
  EXPECT_FALSE(reader_->without_trigger(id_).empty());
  const auto without = read();
  ASSERT_TRUE(without) << without.error().text();
  EXPECT_EQ(without->some_stall, std::nullopt);
  EXPECT_EQ(without->high_events, 20U);
  EXPECT_FALSE(reader_->arm(id_)) << "half of its events would be missed";
  set("memory.pressure", kContainerPsi);
  EXPECT_EQ(read()->some_stall, 1500us);
  EXPECT_EQ(reader_->without_trigger(id_), "");
  EXPECT_EQ(test::read_text(node_ / "cgroup/c/memory.pressure").substr(0, 18),
            "some 200000 500000");
  remove("memory.pressure");
  EXPECT_EQ(read()->some_stall, std::nullopt);
  EXPECT_FALSE(reader_->without_trigger(id_).empty()) << "the trigger ended with it";
}

TEST_F(ContainerPressureFiles, WithoutAPsiThresholdNoTriggerIsMissed) {
  remove("memory.pressure");
  ASSERT_TRUE(reader_->watch(id_, "/c", std::nullopt));
  EXPECT_TRUE(read());
  EXPECT_EQ(reader_->without_trigger(id_), "");
}

TEST_F(ContainerPressureFiles, WaitEndsWithTheOthers) {
  const UniqueFd other(::eventfd(1, EFD_CLOEXEC));
  auto reader = ContainerPressureReader::create(tree_, {other.get()});
  ASSERT_TRUE(reader) << reader.error().text();
  EXPECT_TRUE((*reader)->wait(std::nullopt).empty());
}

TEST_F(ContainerPressureFiles, ForgettingTwiceIsHarmless) {
  ASSERT_TRUE(reader_->watch(id_, "/c", std::nullopt));
  reader_->forget(id_);
  reader_->forget(id_);
  EXPECT_FALSE(reader_->watches(id_));
  EXPECT_TRUE(reader_->watch(id_, "/c", std::nullopt)) << "it may come back";
}

}  // namespace
}  // namespace forestall::sources
