// SPDX-License-Identifier: Apache-2.0
#include "kernel/number_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::kernel {
namespace {

using testing::ElementsAre;
using testing::Eq;
using testing::IsEmpty;
using testing::Optional;

TEST(NumberList, RangesAndSingleNumbers) {
  EXPECT_THAT(parse_number_list("0\n", 64), Optional(ElementsAre(0)));
  EXPECT_THAT(parse_number_list("0-3", 64), Optional(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(parse_number_list("0-1,4,62-63\n", 64), Optional(ElementsAre(0, 1, 4, 62, 63)));
  EXPECT_THAT(parse_number_list("\n", 64), Optional(IsEmpty()));
}

TEST(NumberList, RejectsEverythingElse) {
  for (const char* text : {"-", "0-", "-3", "1-0", "0,0", "3,1", "0-2,2", "a", "0,", ",0", "0 1",
                           "0-1-2", "64", "0-64", "99999999999999999999"}) {
    EXPECT_THAT(parse_number_list(text, 64), Eq(std::nullopt)) << text;
  }
}

}  // namespace
}  // namespace forestall::kernel
