// SPDX-License-Identifier: Apache-2.0
// A screen of cells: what `forestall top` draws on before any terminal sees it, so that tests can
// look at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forestall::top {

// What a cell means. Which colour that is, or which attribute without colours, the terminal knows.
enum class Role : std::uint8_t {
  plain,
  faint,     // frames, units, what is of little interest
  strong,    // what the eye should find
  title,     // headings
  good,      // far from a threshold
  warned,    // near one, or met within its grace period
  bad,       // met, a victim, a kill
  accent,    // what keys do, what is selected
  bar_used,  // the part of the bar that is working set
  bar_cache,
  bar_free,
  chart_some,  // at least one task waited
  chart_full,  // all of them did
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

// What is drawn with. Both sets have one glyph for each purpose.
struct Glyphs {
  char32_t full;         // of a bar
  char32_t half;         // of a bar: what can be dropped
  char32_t empty;        // of a bar
  char32_t rule;         // horizontal line
  char32_t mark;         // a threshold on the bar
  char32_t marker;       // its place below the bar
  char32_t warn_marker;  // a warning line's
  char32_t next;         // the next victim
  char32_t dot;          // state of a threshold
  char32_t separator;    // between parts of a line
  char32_t cut;          // text goes on
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
  // REQUIRES: inside.
  [[nodiscard]] const Cell& at(int x, int y) const;

  // What lies outside is left out.
  void put(int x, int y, char32_t glyph, Style style);
  // Writes UTF-8 text from x on, at most `width` cells; returns the x behind it. A control, wide or
  // combining character, and what is no UTF-8, shows as '?': a table has to stay aligned, and
  // names of cgroups may be anything.
  int write(int x, int y, std::string_view text, Style style, int width = kAll);
  // The same, ending at `right` (exclusive).
  void write_right(int right, int y, std::string_view text, Style style);
  // Changes the style of cells that are drawn already.
  void restyle(int x, int y, int width, Style style);

  // One line as UTF-8, without trailing blanks; for tests and for people.
  [[nodiscard]] std::string line(int y) const;

  static constexpr int kAll = 1 << 20;

 private:
  [[nodiscard]] bool inside(int x, int y) const;
  [[nodiscard]] std::size_t index(int x, int y) const;
  Size size_;
  std::vector<Cell> cells_;
};

// The text as a Screen shows it, for where there is none.
[[nodiscard]] std::string printable(std::string_view text);
// How many cells a text takes on a Screen.
[[nodiscard]] int width_of(std::string_view text);
// Cut to `width` cells with the glyph `cut` at its end, if it is longer.
[[nodiscard]] std::string shortened(std::string_view text, int width, const Glyphs& glyphs);
[[nodiscard]] std::string to_utf8(char32_t glyph);

}  // namespace forestall::top
