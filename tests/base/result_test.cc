// SPDX-License-Identifier: Apache-2.0
// Results: a value or an error, and TRY() between them.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace forestall {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return error("odd");
  return n / 2;
}

Result<int> quarter(int n) {
  const int once = TRY(half(n));
  return TRY(half(once));
}

Result<void> must_be_even(int n) {
  TRY(half(n));
  return {};
}

Result<void> twice_even(int n) {
  TRY(must_be_even(n));
  TRY(must_be_even(n / 2));
  return {};
}

TEST(ResultTest, TryPassesValuesOnAndErrorsUp) {
  EXPECT_EQ(*quarter(8), 2);
  ASSERT_FALSE(quarter(6).ok());
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_TRUE(twice_even(8).ok());
  EXPECT_FALSE(twice_even(6).ok());
}

TEST(ResultTest, TryMovesMoveOnlyValues) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto use = [&]() -> Result<int> {
    const std::unique_ptr<int> owned = TRY(make());
    return *owned;
  };
  EXPECT_EQ(*use(), 7);
}

TEST(ResultTest, OptionalForgetsWhyThereIsNoValue) {
  EXPECT_EQ(half(4).optional(), 2);
  EXPECT_EQ(half(3).optional(), std::nullopt);
}

TEST(ResultTest, AccessToTheValue) {
  Result<std::string> result = std::string("abc");
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(result->size(), 3U);
  *result += "d";
  EXPECT_EQ(result.value(), "abcd");
  EXPECT_EQ(std::move(result).value(), "abcd");
}

TEST(ErrorTest, TextNamesOperationObjectAndReason) {
  errno = ENOENT;
  const Error failure = errno_error("openat", "memory.stat");
  EXPECT_EQ(failure.code, ENOENT);
  EXPECT_EQ(failure.message, "openat memory.stat");
  EXPECT_EQ(failure.text(), "openat memory.stat: No such file or directory");
  EXPECT_EQ(failure.in("/a").text(), "/a: openat memory.stat: No such file or directory");
}

TEST(ErrorTest, AnErrorWithoutErrnoIsItsMessage) {
  EXPECT_EQ(error("line 3: no value").text(), "line 3: no value");
  EXPECT_EQ(error("no value").in("line 3"), error("line 3: no value"));
}

}  // namespace
}  // namespace forestall
