// SPDX-License-Identifier: Apache-2.0
// `forestall events`: the events of a recording, one line each.
#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "agent/wall_time.h"
#include "base/parse.h"
#include "base/printable.h"
#include "cli/agent_socket.h"
#include "cli/agent_status.h"
#include "cli/commands.h"
#include "cli/event_line.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/recorded_events.h"
#include "intake/wall_time.h"
#include "messages/json.h"

namespace forestall::cli {
namespace {

using Kinds = std::bitset<32>;

struct Filter {
  std::int64_t since_ns = INT64_MIN;
  std::int64_t until_ns = INT64_MAX;
  Kinds kinds;

  [[nodiscard]] bool passes(EventKind kind, std::int64_t wall_ns) const {
    return kinds.test(static_cast<std::size_t>(kind)) && wall_ns >= since_ns && wall_ns <= until_ns;
  }
};

// A line to print, with what it is sorted by.
struct Line {
  std::size_t run = 0;
  std::int64_t at_ns = 0;
  std::string text;
};

Result<Kinds> parse_kinds(std::string_view list) {
  const std::vector<std::string>& words = event_kinds();
  Kinds kinds;
  while (!list.empty()) {
    const std::string_view word = trim(next_field(list, ','));
    const auto found = std::ranges::find(words, word);
    if (found == words.end()) {
      return error(fmt::format("--kind: unknown kind '{}'; use: {}", word, fmt::join(words, ", ")));
    }
    kinds.set(static_cast<std::size_t>(found - words.begin()));
  }
  return kinds.none() ? ~kinds : kinds;
}

Result<void> set_time(const char* option, const std::string& text, std::int64_t now_ns,
                      std::int64_t& out) {
  if (text.empty()) return {};
  const auto time = intake::parse_time(text, now_ns);
  if (!time) return time.error().in(option);
  out = *time;
  return {};
}

Result<Filter> filter_of(const EventsOptions& options) {
  Filter filter;
  filter.kinds = TRY(parse_kinds(options.kinds));
  const std::int64_t now_ns = agent::wall_time_ns();
  TRY(set_time("--since", options.since, now_ns, filter.since_ns));
  TRY(set_time("--until", options.until, now_ns, filter.until_ns));
  if (filter.since_ns > filter.until_ns) return error("--since is after --until");
  return filter;
}

Result<std::string> recording_of_agent(const std::string& socket) {
  const v1::AgentStatus status = TRY(agent_status(socket));
  if (!status.config().has_recording()) {
    return error(
        fmt::format("the agent at {} records nothing; set `recording` in its configuration, or "
                    "name a recording",
                    socket));
  }
  return status.config().recording().directory();
}

std::int64_t wall_ns_of(const v1::Event& event) {
  return event.wall_time().seconds() * 1'000'000'000 + event.wall_time().nanos();
}

std::string text_of(const EventLine& line, OutputFormat format) {
  if (format == OutputFormat::json) {
    return messages::to_json(line.event, messages::JsonStyle::line);
  }
  return intake::wall_time_text(wall_ns_of(line.event)) + " " + printable(line.sentence);
}

void print_lines(std::vector<Line> lines, std::uint64_t limit) {
  std::ranges::stable_sort(lines, {},
                           [](const Line& each) { return std::tuple(each.run, each.at_ns); });
  const std::size_t first =
      limit == 0 || limit >= lines.size() ? 0 : lines.size() - static_cast<std::size_t>(limit);
  // main() reports a failed write.
  for (std::size_t i = first; i < lines.size(); ++i) std::puts(lines[i].text.c_str());
}

void print_remarks(const RecordedEvents& events) {
  for (const std::string& remark : events.input().remarks()) {
    fmt::print(stderr, "forestall events: {}\n", printable(remark));
  }
  if (events.incomplete() > 0) {
    fmt::print(stderr, "forestall events: {} records are left out: their evaluations are lost\n",
               events.incomplete());
  }
}

}  // namespace

int run_events(const Options& options, const EventsOptions& given) {
  const auto filter = filter_of(given);
  if (!filter) return fail("events", filter.error(), kExitUsage);
  std::string path = given.path;
  if (path.empty()) {
    auto recording = recording_of_agent(agent_socket(options));
    if (!recording) return fail("events", recording.error(), kExitFailed);
    path = std::move(recording).value();
  }
  auto input = replay::RecordingInput::open(path);
  if (!input) return fail("events", input.error(), kExitUsage);
  RecordedEvents events(std::move(*input));
  std::vector<Line> lines;
  const auto visited = events.visit([&](const EventLine& line) {
    if (!filter->passes(line.kind, wall_ns_of(line.event))) return;
    lines.push_back({events.run(), line.event.at_ns(), text_of(line, options.output)});
  });
  print_lines(std::move(lines), given.limit);
  print_remarks(events);
  if (!visited) return fail("events", visited.error().in(path), kExitUsage);
  return kExitOk;
}

}  // namespace forestall::cli
