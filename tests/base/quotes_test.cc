// SPDX-License-Identifier: Apache-2.0
#include "base/quotes.h"

#include <gtest/gtest.h>

namespace forestall {
namespace {

TEST(InQuotes, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(in_quotes(""), "''");
  const std::string longest(80, 'a');
  EXPECT_EQ(in_quotes(longest), "'" + longest + "'");
  EXPECT_EQ(in_quotes(longest + "a"), "'" + longest + "…'");
  const std::string before(79, 'a');
  EXPECT_EQ(in_quotes(before + "é and more"), "'" + before + "…'");
  EXPECT_EQ(in_quotes(std::string(100, '\x80')), "'…'") << "no character begins here";
}

TEST(InDoubleQuotes, ChangesNothing) {
  EXPECT_EQ(in_double_quotes(std::string(200, 'a')), '"' + std::string(200, 'a') + '"');
}

}  // namespace
}  // namespace forestall
