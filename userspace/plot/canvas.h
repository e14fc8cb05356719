// SPDX-License-Identifier: Apache-2.0
// A drawing surface: a cairo image surface with the functions that charts need.
#pragma once

#include <cairo.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace forestall::plot {

struct Colour {
  double red = 0;
  double green = 0;
  double blue = 0;
  double alpha = 1;
};
// 0xRRGGBB.
[[nodiscard]] Colour colour(std::uint32_t rgb, double alpha = 1);

struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;

  [[nodiscard]] double right() const { return left + width; }
  [[nodiscard]] double bottom() const { return top + height; }
};

enum class Align : std::uint8_t { left, centre, right };

struct Pen {
  Colour colour;
  double width = 1;
  bool dashed = false;
};

class Canvas {
 public:
  // In pixels; one pixel is one point.
  Canvas(int width, int height);
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;
  ~Canvas();

  void fill(const Box& box, const Colour& colour);
  void line(double x1, double y1, double x2, double y2, const Pen& pen);
  // `y` is the base line. Text wider than `width_max` is cut with an ellipsis; 0: no limit. Returns
  // the width.
  double text(double x, double y, const std::string& text, double size, const Colour& colour,
              Align align = Align::left, bool bold = false, double width_max = 0);
  [[nodiscard]] double text_width(const std::string& text, double size, bool bold);
  // For custom paths.
  [[nodiscard]] cairo_t* cairo() { return cairo_; }
  void set(const Colour& colour);
  void clip(const Box& box);
  void unclip();

  // Writes a PNG to a descriptor. Errors are cairo's.
  [[nodiscard]] Result<void> write(int fd);

 private:
  void select_font(double size, bool bold);

  cairo_surface_t* surface_;
  cairo_t* cairo_;
};

}  // namespace forestall::plot
