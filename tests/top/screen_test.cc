// SPDX-License-Identifier: Apache-2.0
// Cells: where text is placed, and that no name can move its neighbours.
#include "top/screen.h"

#include <gtest/gtest.h>

namespace forestall::top {
namespace {

TEST(Screen, WritesAtTheGivenPlaceAndTruncates) {
  Screen screen({8, 2});
  EXPECT_EQ(screen.write(5, 0, "abcdef", {}), 8);
  EXPECT_EQ(screen.write(0, 1, "abcdef", {}, 3), 3);
  screen.write_right(8, 1, "xy", {});
  screen.put(8, 0, U'z', {});
  screen.put(0, 2, U'z', {});
  screen.put(-1, 0, U'z', {});
  EXPECT_EQ(screen.line(0), "     abc");
  EXPECT_EQ(screen.line(1), "abc   xy");
}

TEST(Screen, ReplacesUnsafeCharactersByQuestionMarks) {
  // Escape, tab, two cells wide, combining, no UTF-8, cut short, beyond the basic plane, invisible,
  // from right to left.
  for (const char* text : {"\033", "\t", "\u7a0b", "\u0301", "\xff", "\xe2\x96", "\U0001F4A3",
                           "\u200b", "\u202e", "\u0085", "\u2066", "\u061c", "\u05d0", "\u20d0"}) {
    Screen screen({6, 1});
    screen.write(0, 0, std::string("a") + text + "b", {});
    const std::string line = screen.line(0);
    EXPECT_EQ(line.front(), 'a');
    EXPECT_EQ(line.substr(1, line.size() - 2), std::string(line.size() - 2, '?')) << line;
    EXPECT_EQ(line.back(), 'b');
  }
}

TEST(Screen, KeepsCharactersOfOneCell) {
  Screen screen({8, 1});
  screen.write(0, 0, "é▶█…·", {});
  EXPECT_EQ(screen.line(0), "é▶█…·");
  EXPECT_EQ(width_of("é▶█…·"), 5);
}

TEST(Screen, ShortensWithAMark) {
  EXPECT_EQ(shortened("abcdef", 6, ascii_glyphs()), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4, ascii_glyphs()), "abc~");
  EXPECT_EQ(shortened("abcdef", 4, unicode_glyphs()), "abc…");
  EXPECT_EQ(shortened("abcdef", 0, ascii_glyphs()), "");
}

TEST(Screen, AnEmptyScreenAcceptsNothing) {
  Screen screen({0, 0});
  EXPECT_EQ(screen.write(0, 0, "a", {}), 0);
  const Screen negative({-3, 5});
  EXPECT_EQ(negative.size().width, 0);
}

TEST(Glyphs, AsciiIsAscii) {
  const Glyphs& glyphs = ascii_glyphs();
  for (const char32_t each : {glyphs.full, glyphs.half, glyphs.empty, glyphs.rule, glyphs.mark,
                              glyphs.marker, glyphs.warn_marker, glyphs.next, glyphs.dot,
                              glyphs.separator, glyphs.cut, glyphs.up, glyphs.down}) {
    EXPECT_LT(each, 0x7FU);
  }
  EXPECT_EQ(glyphs.levels.size(), unicode_glyphs().levels.size());
}

}  // namespace
}  // namespace forestall::top
