// SPDX-License-Identifier: Apache-2.0
// A podList that changes, breaks, and grows old.
#include "daemon/pod_list_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>

#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Duration kMaxAge = std::chrono::minutes(3);

class PodListWatchTest : public ::testing::Test {
 protected:
  PodListWatchTest() {
    auto started = daemon::PodListWatch::start(log_);
    EXPECT_TRUE(started);
    if (started) watch_ = std::move(*started);
  }
  static std::string list(const std::string& uid) {
    return R"({"kind": "PodList", "items": [{"metadata": {"uid": ")" + uid +
           R"(", "name": "n"}}]})";
  }
  // As a program that writes it replaces it.
  void replace(const std::string& text) {
    files_.write("next.json", text);
    std::filesystem::rename(files_ / "next.json", path_);
  }
  // The UID of the one pod on the next list; empty: none came in time.
  std::string next() {
    pollfd ready{watch_->fd(), POLLIN, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(test::kPatience).count();
    if (::poll(&ready, 1, static_cast<int>(ms)) != 1) return "";
    const auto pods = watch_->take();
    return pods && pods->size() == 1 ? pods->front()->uid : "";
  }
  bool wait_state(const std::function<bool(const daemon::PodListState&)>& wanted) const {
    const MonotonicTime deadline = SystemClock().now() + test::kPatience;
    while (SystemClock().now() < deadline) {
      if (wanted(watch_->state())) return true;
    }
    return false;
  }

  const test::TempTree files_{{"pods.json", list("a")}};
  const std::string path_ = files_ / "pods.json";
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  std::unique_ptr<daemon::PodListWatch> watch_;
};

TEST_F(PodListWatchTest, AListThatIsReplacedOrWrittenAgainIsReadAgain) {
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  replace(list("b"));
  EXPECT_EQ(next(), "b");
  files_.write("pods.json", list("c"));
  EXPECT_EQ(next(), "c");
  EXPECT_EQ(watch_->state().pods, 1u);
  EXPECT_EQ(watch_->state().path, path_);
}

TEST_F(PodListWatchTest, AListWithTheSamePodsIsNotHandedOn) {
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  replace(list("a") + "\n");
  replace(list("b"));
  EXPECT_EQ(next(), "b");
}

TEST_F(PodListWatchTest, AListThatCannotBeReadLeavesTheLastOneAndIsReported) {
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  replace("{\"kind\": \"PodList\", \"items\": [{]");
  EXPECT_TRUE(wait_state([](const daemon::PodListState& state) { return !state.problem.empty(); }));
  EXPECT_THAT(watch_->state().problem, HasSubstr(path_));
  EXPECT_EQ(watch_->state().pods, 1u);
  std::filesystem::remove(path_);
  EXPECT_TRUE(wait_state([](const daemon::PodListState& state) {
    return state.problem.find("No such file") != std::string::npos;
  }));
  replace(list("b"));
  EXPECT_EQ(next(), "b");
  EXPECT_THAT(watch_->state().problem, IsEmpty());
}

TEST_F(PodListWatchTest, AListThatOthersCanWriteIsRefusedUntilItsModeIsCorrected) {
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  files_.write("next.json", list("b"));
  ASSERT_EQ(::chmod((files_ / "next.json").c_str(), 0666), 0);
  std::filesystem::rename(files_ / "next.json", path_);
  EXPECT_TRUE(wait_state([](const daemon::PodListState& state) { return !state.problem.empty(); }));
  EXPECT_THAT(watch_->state().problem, HasSubstr("run `chmod go-w " + path_ + "`"));
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(next(), "b");
}

TEST_F(PodListWatchTest, AListThatIsNotWrittenForLongIsStale) {
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() - kMaxAge - std::chrono::seconds(5));
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  EXPECT_TRUE(wait_state([](const daemon::PodListState& state) { return state.stale; }));
  replace(list("a"));
  EXPECT_TRUE(wait_state([](const daemon::PodListState& state) { return !state.stale; }));
}

// The clock was set back by hours after it was written.
TEST_F(PodListWatchTest, AListOfTheFutureBecomesStaleInTime) {
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() + std::chrono::hours(5));
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  ASSERT_TRUE(
      wait_state([](const daemon::PodListState& state) { return state.written.has_value(); }));
  const auto written = watch_->state().written;
  EXPECT_LE(*written, SystemClock().now());
  EXPECT_FALSE(watch_->state().stale);
  // A reload evaluates it again.
  const auto is_stale = [&](const daemon::PodListState& state) {
    watch_->follow(path_, Duration(1), {});
    return state.stale;
  };
  EXPECT_TRUE(wait_state(is_stale));
  EXPECT_EQ(watch_->state().written, written);
}

// By the wall clock it would be new again.
TEST_F(PodListWatchTest, AListKeepsItsAgeIfOnlyItsAttributesChange) {
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() + std::chrono::hours(5));
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  ASSERT_TRUE(
      wait_state([](const daemon::PodListState& state) { return state.written.has_value(); }));
  const auto written = watch_->state().written;
  watch_->follow(path_, kMaxAge, {});  // so that the next reading is offered
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(next(), "a") << "it was read again";
  const auto is_stale = [&](const daemon::PodListState& state) {
    watch_->follow(path_, Duration(1), {});
    return state.stale;
  };
  EXPECT_TRUE(wait_state(is_stale));
  EXPECT_EQ(watch_->state().written, written);
}

TEST_F(PodListWatchTest, AReloadChangesTheAgeAtWhichAListIsStale) {
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() - kMaxAge - std::chrono::seconds(5));
  watch_->follow(path_, kMaxAge, {});
  EXPECT_TRUE(wait_state([](const daemon::PodListState& state) { return state.stale; }));
  watch_->follow(path_, 2 * kMaxAge, {});
  EXPECT_TRUE(wait_state([](const daemon::PodListState& state) { return !state.stale; }));
}

TEST_F(PodListWatchTest, WithoutAPathNothingIsRead) {
  watch_->follow(path_, kMaxAge, {});
  EXPECT_EQ(next(), "a");
  watch_->follow("", kMaxAge, {});
  EXPECT_EQ(watch_->take(), std::nullopt);
  EXPECT_THAT(watch_->state().path, IsEmpty());
}

}  // namespace
}  // namespace forestall::agent
