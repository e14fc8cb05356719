// SPDX-License-Identifier: Apache-2.0
// Events of a trace as text: one line each, in columns, optionally in color.
#pragma once

#include <cstdint>
#include <string>

#include "forestall/v1/event.pb.h"

namespace forestall::trace {

class TraceText {
 public:
  explicit TraceText(bool color) : color_(color) {}

  // Column headings.
  void head(std::string& out) const;
  // Appends the event's line or lines. Values without a column are at the end of the line.
  void append(const v1::Event& event, std::string& out) const;

 private:
  enum class Tone : std::uint8_t { plain, faint, good, notable, severe };

  void begin_line(const v1::Event& event, std::string_view kind, Tone tone, std::string& out) const;
  void span(const v1::Event& event, std::string& out) const;
  void oom_kill(const v1::Event& event, std::string& out) const;
  void decision(const v1::Event& event, std::string& out) const;
  void outcome(const v1::Event& event, std::string& out) const;
  void pressure(const v1::Event& event, std::string& out) const;
  void start(const v1::TraceStartEvent& start, std::string& out) const;
  void end(const v1::TraceEndEvent& end, std::string& out) const;
  void others(const v1::Event& event, std::string& out) const;
  void paint(Tone tone, std::string& out) const;

  bool color_;
};

// "1.234 ms", at most four digits.
[[nodiscard]] std::string short_length(std::int64_t ns);
// The --kind word of a span.
[[nodiscard]] std::string_view span_word(v1::SpanKind kind);

}  // namespace forestall::trace
