// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <gtest/gtest.h>

namespace forestall {
namespace {

TEST(Printable, ReplacesWhatATerminalWouldExecute) {
  EXPECT_EQ(printable("\x1b[2Jname\x7f\n"), "?[2Jname??");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "?2J")
      << "C1 control as UTF-8";
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\xef\xbf\xbd"
            "2J")
      << "C1 control of an 8-bit terminal";
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b\xe2\x81\xa6"
                      "c\xe2\x80\xa8"),
            "a?b?c?");
}

TEST(Printable, KeepsTextOfAllLanguages) {
  const std::string text = "caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x90\xa7";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(escaped(text), text);
}

TEST(Printable, ReplacesBytesThatAreNotUtf8) {
  for (const std::string& each : {std::string("\xc0\xaf"), std::string("\xe0\x80\xaf"),
                                  std::string("\xed\xa0\x80"), std::string("\xf5\x80\x80\x80"),
                                  std::string("\xf0\x8f\xbf\xbf"), std::string("\xe2\x80")}) {
    std::string replaced;
    for (std::size_t i = 0; i < each.size(); ++i) replaced += "\xef\xbf\xbd";
    EXPECT_EQ(printable(each), replaced);
  }
}

TEST(Printable, EscapesEachByteOfAControl) {
  EXPECT_EQ(escaped("a\tb\nc\xc2\x85"
                    "d\xff",
                    ""),
            "a\\x09b\\nc\\xc2\\x85d\\xff");
  EXPECT_EQ(escaped("run \"a\\b\"", "\"\\"), "run \\\"a\\\\b\\\"");
}

TEST(Printable, KeepsLineBreaksOfATextOfSeveralLines) {
  EXPECT_EQ(printable_lines("one\ntwo\x1b[m\n"), "one\ntwo?[m\n");
}

}  // namespace
}  // namespace forestall
