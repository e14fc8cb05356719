// SPDX-License-Identifier: Apache-2.0
// A screen of cells, on which `forestall top` draws. The terminal paints it, and tests can read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forestall::top {

// The meaning of a cell. The terminal maps it to a color or, without colors, to an attribute.
enum class Role : std::uint8_t {
  plain,
  faint,     // frames, units, details
  strong,    // the most important values
  title,     // headings
  good,      // far from a threshold
  warned,    // near one, or met within its grace period
  bad,       // met, a victim, a kill
  accent,    // keys, the selection
  bar_used,  // the working set on the bar
  bar_cache,
  bar_free,
  chart_some,  // at least one task waited
  chart_full,  // all tasks waited
};
inline constexpr std::size_t kRoles = static_cast<std::size_t>(Role::chart_full) + 1;

struct Style {
  Role role = Role::plain;
  bool reverse = false;
  bool bold = false;
  friend bool operator==(const Style&, const Style&) = default;
};

struct Cell {
  char32_t glyph = U' ';
  Style style;
  friend bool operator==(const Cell&, const Cell&) = default;
};

struct Size {
  int width = 0;
  int height = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

// Characters for drawing. Both sets have one glyph per purpose.
struct Glyphs {
  char32_t full;         // of a bar
  char32_t half;         // of a bar: reclaimable memory
  char32_t empty;        // of a bar
  char32_t rule;         // horizontal line
  char32_t mark;         // a threshold on the bar
  char32_t marker;       // its position under the bar
  char32_t warn_marker;  // of a warning line
  char32_t next;         // the next victim
  char32_t dot;          // state of a threshold
  char32_t separator;    // between parts of a line
  char32_t cut;          // the text is cut
  char32_t up;
  char32_t down;
  std::u32string_view levels;  // of a chart, lowest first
};
[[nodiscard]] const Glyphs& unicode_glyphs();
[[nodiscard]] const Glyphs& ascii_glyphs();

class Screen {
 public:
  explicit Screen(Size size);

  [[nodiscard]] Size size() const { return size_; }
  // REQUIRES: inside the screen.
  [[nodiscard]] const Cell& at(int x, int y) const;

  // Ignored outside of the screen.
  void put(int x, int y, char32_t glyph, Style style);
  // Writes at most `width` cells of UTF-8 text from x on and returns the next x. Control, wide and
  // combining characters and invalid UTF-8 become '?': cgroup names may contain any bytes, and the
  // table must stay aligned.
  int write(int x, int y, std::string_view text, Style style, int width = kAll);
  // The same; the text ends before `right`.
  void write_right(int right, int y, std::string_view text, Style style);
  // Changes the style of cells that are already drawn.
  void restyle(int x, int y, int width, Style style);

  // A line as UTF-8 without trailing blanks, for tests and text output.
  [[nodiscard]] std::string line(int y) const;

  static constexpr int kAll = 1 << 20;

 private:
  [[nodiscard]] bool inside(int x, int y) const;
  [[nodiscard]] std::size_t index(int x, int y) const;
  Size size_;
  std::vector<Cell> cells_;
};

// The text as a Screen would show it.
[[nodiscard]] std::string printable(std::string_view text);
// Cells of a text on a Screen.
[[nodiscard]] int width_of(std::string_view text);
// The text, cut to `width` cells with the glyph `cut` at its end if it is longer.
[[nodiscard]] std::string shortened(std::string_view text, int width, const Glyphs& glyphs);
[[nodiscard]] std::string to_utf8(char32_t glyph);

}  // namespace forestall::top
