// SPDX-License-Identifier: Apache-2.0
// forestall-plot: reads a picture (binary internal/picture.proto) from standard input and
// writes a PNG to standard output. `forestall report --format png` runs it.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "plot/canvas.h"
#include "plot/chart.h"

namespace forestall::plot {
namespace {

constexpr int kWidth = 1600;
constexpr int kHeight = 1180;
constexpr double kMargin = 36;
constexpr std::array<std::uint32_t, 12> kColours{0x2f7ed8, 0xe08a1e, 0x2a9d6f, 0xc8508f,
                                                 0x7d6bd0, 0xb5a000, 0x38a7c0, 0xa4572e,
                                                 0x6b8e23, 0xd1605e, 0x4f6d9a, 0x9b7fae};

std::string time_of(const internal::Picture& picture, std::int64_t at_us) {
  const std::chrono::sys_seconds at(
      std::chrono::seconds((picture.origin_unix_us() + at_us) / 1'000'000));
  return fmt::format("{:%F %H:%M:%S}", fmt::gmtime(at));
}

void draw_title(Canvas& canvas, const internal::Picture& picture) {
  const internal::PictureOrigin& origin = picture.origin();
  const internal::PictureSummary& summary = picture.summary();
  canvas.text(kMargin, 48, "Forestall: " + (origin.node().empty() ? "report" : origin.node()), 24,
              colour(0x18211d), Align::left, true, kWidth - 2 * kMargin);
  std::string summary_text =
      fmt::format("{} to {} UTC, Linux {}: killed by Forestall {}, by the kernel {}",
                  time_of(picture, picture.from_us()), time_of(picture, picture.to_us()),
                  origin.kernel(), summary.kills(), summary.kernel_ooms());
  if (summary.would_kills() > 0) {
    summary_text += fmt::format(", would have been killed {} (dry run)", summary.would_kills());
  }
  if (summary.has_median_to_signal_ns()) {
    summary_text += fmt::format("; crossing to SIGKILL at most {:.2f} ms (median)",
                                static_cast<double>(summary.median_to_signal_ns()) / 1e6);
  }
  if (picture.remarks_size() > 0) summary_text += "; incomplete: " + picture.remarks(0);
  canvas.text(kMargin, 76, summary_text, 14, colour(0x5c6963), Align::left, false,
              kWidth - 2 * kMargin);
}

Chart available(const internal::Picture& picture) {
  static const internal::Table kNone;
  Chart chart{"Available", AxisUnit::bytes, &kNone, {}, false, nullptr, 0};
  if (picture.gauges_size() == 0) return chart;
  const internal::Gauge& gauge = picture.gauges(0);
  chart.title = gauge.signal() + (gauge.subject() == "node" ? "" : " of " + gauge.subject());
  chart.unit = gauge.unit() == internal::Gauge::BYTES ? AxisUnit::bytes : AxisUnit::count;
  chart.table = &gauge.table();
  chart.lines = {{"available", "available", colour(0x1d6fb8)}};
  chart.gauge = &gauge;
  return chart;
}

Chart workloads(const internal::Picture& picture) {
  Chart chart{"Working sets", AxisUnit::bytes, &picture.workloads(), {}, true, nullptr, 0};
  const auto named = static_cast<std::size_t>(picture.workload_names_size());
  std::size_t number = 0;
  for (const internal::Line& line : picture.workloads().lines()) {
    const bool others = number >= named;
    const std::string label = others ? fmt::format("{} others", picture.workloads_left_out())
                                     : picture.workload_names(static_cast<int>(number));
    const std::uint32_t drawn = others ? 0xa9b3ad : kColours[number % kColours.size()];
    chart.lines.push_back({line.name(), label, colour(drawn)});
    ++number;
  }
  return chart;
}

Result<void> plot(const internal::Picture& picture) {
  Canvas canvas(kWidth, kHeight);
  draw_title(canvas, picture);
  const double width = kWidth - 2 * kMargin;
  draw(canvas, {kMargin, 96, width, 380}, picture, available(picture));
  draw(canvas, {kMargin, 490, width, 400}, picture, workloads(picture));
  const Chart pressure{"Memory pressure (PSI)",
                       AxisUnit::percent,
                       &picture.pressure(),
                       {{"some", "some", colour(0xd17a00)}, {"full", "full", colour(0xb3261e)}},
                       false,
                       nullptr,
                       5000};
  draw(canvas, {kMargin, 904, width, 250}, picture, pressure);
  return canvas.write(STDOUT_FILENO);
}

}  // namespace
}  // namespace forestall::plot

#ifdef __SANITIZE_ADDRESS__
// fontconfig keeps its fonts until the program ends. Standard error must contain errors only.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfontconfig";
}
extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}
#endif

int main() {
  forestall::internal::Picture picture;
  if (!picture.ParseFromFileDescriptor(STDIN_FILENO)) {
    std::fputs("forestall-plot: standard input is not a picture\n", stderr);
    return 2;
  }
  if (const auto plotted = forestall::plot::plot(picture); !plotted) {
    std::fprintf(stderr, "forestall-plot: %s\n", plotted.error().text().c_str());
    return 1;
  }
  return 0;
}
