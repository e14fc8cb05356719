// SPDX-License-Identifier: Apache-2.0
#include "plot/canvas.h"

#include <unistd.h>

#include <cerrno>

namespace forestall::plot {
namespace {

cairo_status_t write_part(void* fd, const unsigned char* bytes, unsigned length) {
  while (length > 0) {
    const ssize_t n = ::write(*static_cast<int*>(fd), bytes, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CAIRO_STATUS_WRITE_ERROR;
    bytes += n;
    length -= static_cast<unsigned>(n);
  }
  return CAIRO_STATUS_SUCCESS;
}

// Removes the last character, which may be several bytes of UTF-8.
void shorten(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

}  // namespace

Colour colour(std::uint32_t rgb, double alpha) {
  const auto part = [&](int shift) { return static_cast<double>((rgb >> shift) & 0xff) / 255; };
  return {part(16), part(8), part(0), alpha};
}

Canvas::Canvas(int width, int height)
    : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
      cairo_(cairo_create(surface_)) {
  set(colour(0xffffff));
  cairo_paint(cairo_);
}

Canvas::~Canvas() {
  cairo_destroy(cairo_);
  cairo_surface_destroy(surface_);
}

void Canvas::set(const Colour& colour) {
  cairo_set_source_rgba(cairo_, colour.red, colour.green, colour.blue, colour.alpha);
}

void Canvas::fill(const Box& box, const Colour& colour) {
  set(colour);
  cairo_rectangle(cairo_, box.left, box.top, box.width, box.height);
  cairo_fill(cairo_);
}

void Canvas::line(double x1, double y1, double x2, double y2, const Pen& pen) {
  constexpr double kDashes[] = {7, 4};
  set(pen.colour);
  cairo_set_line_width(cairo_, pen.width);
  if (pen.dashed) cairo_set_dash(cairo_, kDashes, 2, 0);
  cairo_move_to(cairo_, x1, y1);
  cairo_line_to(cairo_, x2, y2);
  cairo_stroke(cairo_);
  cairo_set_dash(cairo_, nullptr, 0, 0);
}

void Canvas::select_font(double size, bool bold) {
  cairo_select_font_face(cairo_, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo_, size);
}

double Canvas::text_width(const std::string& text, double size, bool bold) {
  select_font(size, bold);
  cairo_text_extents_t extents{};
  cairo_text_extents(cairo_, text.c_str(), &extents);
  return extents.x_advance;
}

double Canvas::text(double x, double y, const std::string& text, double size, const Colour& colour,
                    Align align, bool bold, double width_max) {
  select_font(size, bold);
  std::string shown = text;
  cairo_text_extents_t extents{};
  cairo_text_extents(cairo_, shown.c_str(), &extents);
  std::string kept = text;
  while (width_max > 0 && extents.x_advance > width_max && !kept.empty()) {
    shorten(kept);
    shown = kept + "…";
    cairo_text_extents(cairo_, shown.c_str(), &extents);
  }
  const double before = align == Align::left     ? 0
                        : align == Align::centre ? extents.x_advance / 2
                                                 : extents.x_advance;
  set(colour);
  cairo_move_to(cairo_, x - before, y);
  cairo_show_text(cairo_, shown.c_str());
  return extents.x_advance;
}

void Canvas::clip(const Box& box) {
  cairo_save(cairo_);
  cairo_rectangle(cairo_, box.left, box.top, box.width, box.height);
  cairo_clip(cairo_);
}

void Canvas::unclip() {
  cairo_restore(cairo_);
}

Result<void> Canvas::write(int fd) {
  cairo_surface_flush(surface_);
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface_, write_part, &fd);
  if (status != CAIRO_STATUS_SUCCESS) return error(cairo_status_to_string(status));
  return {};
}

}  // namespace forestall::plot
