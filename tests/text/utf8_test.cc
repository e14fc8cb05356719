// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace forestall::test {
namespace {

TEST(Utf8, WellFormed) {
  for (const std::string_view text :
       {"", "plain", "é", "€", "𝄞", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
        "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_FALSE(text::find_invalid_utf8(text)) << text;
    EXPECT_EQ(text::to_utf8(text), text);
  }
}

TEST(Utf8, IllFormed) {
  // A single continuation, overlong forms, a surrogate, beyond U+10FFFF, truncated, never valid.
  for (const std::string_view bad : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80",
                                     "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80", "\xc3", "\xe2\x82",
                                     "\xf0\x9d\x84", "\xfe", "\xff", "\xf5\x80\x80\x80"}) {
    EXPECT_EQ(text::find_invalid_utf8("ok" + std::string(bad)), 2U);
    EXPECT_FALSE(text::find_invalid_utf8(text::to_utf8(bad)));
  }
}

TEST(Utf8, FindsABadByteBehindAnyNumberOfCharacters) {
  for (std::size_t length = 0; length < 20; ++length) {
    const std::string plain(length, 'x');
    EXPECT_EQ(text::find_invalid_utf8(plain + "\xff" + plain), length);
    EXPECT_EQ(text::find_invalid_utf8(plain + "€" + plain + "\xe2"), 2 * length + 3);
    EXPECT_FALSE(text::find_invalid_utf8(plain + "€" + plain));
  }
}

TEST(Utf8, ReplacesEachBadByte) {
  EXPECT_EQ(text::to_utf8("a\xff"
                          "b\xc3"),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
  EXPECT_EQ(text::to_utf8("\xc3\xa9\xa9"), "\xc3\xa9\xef\xbf\xbd");
}

}  // namespace
}  // namespace forestall::test
