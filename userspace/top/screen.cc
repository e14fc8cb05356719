// SPDX-License-Identifier: Apache-2.0
#include "top/screen.h"

#include <algorithm>

namespace forestall::top {
namespace {

constexpr char32_t kUnshown = U'?';

// Removes the first code point of `text` and returns it. An invalid byte is returned as '?'.
char32_t take_glyph(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  std::size_t length = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xE ? 3 : 0;
  if (length == 0 || text.size() < length) {
    // Code points of four bytes are not drawn: most are wide.
    length = first >> 3 == 0x1E ? std::min<std::size_t>(4, text.size()) : 1;
    text.remove_prefix(length);
    return kUnshown;
  }
  char32_t glyph = length == 1 ? first : first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >> 6 != 0x2) {
      text.remove_prefix(i);
      return kUnshown;
    }
    glyph = (glyph << 6) | (byte & 0x3FU);
  }
  text.remove_prefix(length);
  // Not shown: control characters, the soft hyphen and combining marks. From Hebrew on, many
  // characters are written from right to left, combine or are two cells wide. Exceptions are
  // punctuation, arrows, blocks and similar between U+2010 and U+2E7F, without invisible and
  // combining ones.
  if (glyph < 0x20 || (glyph >= 0x7F && glyph < 0xA0) || glyph == 0xAD) return kUnshown;
  if (glyph >= 0x300 && glyph < 0x370) return kUnshown;
  if (glyph >= 0x483 && glyph < 0x48A) return kUnshown;
  if (glyph >= 0x590 && (glyph < 0x2010 || glyph >= 0x2E80)) return kUnshown;
  if (glyph >= 0x2028 && glyph < 0x2030) return kUnshown;
  if (glyph >= 0x205F && glyph < 0x2070) return kUnshown;
  if (glyph >= 0x20D0 && glyph < 0x2100) return kUnshown;
  return glyph;
}

}  // namespace

const Glyphs& unicode_glyphs() {
  static constexpr Glyphs kGlyphs{U'█', U'▒', U'░', U'─', U'┃', U'▲', U'△',
                                  U'▶', U'●', U'·', U'…', U'▲', U'▼', U" ▁▂▃▄▅▆▇█"};
  return kGlyphs;
}

const Glyphs& ascii_glyphs() {
  static constexpr Glyphs kGlyphs{U'#', U'=', U'.', U'-', U'|', U'^', U'\'',
                                  U'>', U'*', U'|', U'~', U'^', U'v', U" .:-=+*#@"};
  return kGlyphs;
}

Screen::Screen(Size size)
    : size_{std::max(size.width, 0), std::max(size.height, 0)},
      cells_(static_cast<std::size_t>(size_.width) * static_cast<std::size_t>(size_.height)) {}

bool Screen::inside(int x, int y) const {
  return x >= 0 && y >= 0 && x < size_.width && y < size_.height;
}

std::size_t Screen::index(int x, int y) const {
  return static_cast<std::size_t>(y) * static_cast<std::size_t>(size_.width) +
         static_cast<std::size_t>(x);
}

const Cell& Screen::at(int x, int y) const {
  return cells_[index(x, y)];
}

void Screen::put(int x, int y, char32_t glyph, Style style) {
  if (inside(x, y)) cells_[index(x, y)] = Cell{glyph, style};
}

int Screen::write(int x, int y, std::string_view text, Style style, int width) {
  const int end = width >= kAll ? size_.width : std::min(x + width, size_.width);
  while (!text.empty() && x < end) put(x++, y, take_glyph(text), style);
  return x;
}

void Screen::write_right(int right, int y, std::string_view text, Style style) {
  write(right - width_of(text), y, text, style);
}

void Screen::restyle(int x, int y, int width, Style style) {
  for (int i = x; i < x + width; ++i) {
    if (inside(i, y)) put(i, y, at(i, y).glyph, style);
  }
}

std::string Screen::line(int y) const {
  std::string text;
  for (int x = 0; x < size_.width; ++x) text += to_utf8(at(x, y).glyph);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) shown += to_utf8(take_glyph(text));
  return shown;
}

int width_of(std::string_view text) {
  int width = 0;
  for (; !text.empty(); ++width) (void)take_glyph(text);
  return width;
}

std::string shortened(std::string_view text, int width, const Glyphs& glyphs) {
  if (width <= 0) return "";
  if (width_of(text) <= width) return std::string(text);
  std::string kept;
  for (int i = 0; i + 1 < width; ++i) kept += to_utf8(take_glyph(text));
  return kept + to_utf8(glyphs.cut);
}

std::string to_utf8(char32_t glyph) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (glyph < 0x80) return {byte(glyph)};
  if (glyph < 0x800) return {byte(0xC0 | (glyph >> 6)), byte(0x80 | (glyph & 0x3F))};
  return {byte(0xE0 | (glyph >> 12)), byte(0x80 | ((glyph >> 6) & 0x3F)),
          byte(0x80 | (glyph & 0x3F))};
}

}  // namespace forestall::top
