// SPDX-License-Identifier: Apache-2.0
// Events of a trace for people: one line each, in columns; in colour where that is wanted.
#pragma once

#include <cstdint>
#include <string>

#include "forestall/v1/event.pb.h"

namespace forestall::cli {

class TraceText {
 public:
  explicit TraceText(bool color) : color_(color) {}

  // The names of the columns.
  void head(std::string& out) const;
  // The event's line, or lines, appended. What a line has no column for stands at its end.
  void append(const v1::Event& event, std::string& out) const;

 private:
  enum class Tone : std::uint8_t { plain, faint, good, notable, grave };

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

// "1.234 ms", four digits at most.
[[nodiscard]] std::string short_length(std::int64_t ns);
// The word of --kind for what lasted.
[[nodiscard]] std::string_view span_word(v1::SpanKind kind);

}  // namespace forestall::cli
