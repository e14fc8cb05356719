// SPDX-License-Identifier: Apache-2.0
// `forestall events`: the events of a recording, one line each.
#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/wall_time.h"
#include "base/parse.h"
#include "base/printable.h"
#include "cli/agent_socket.h"
#include "cli/agent_status.h"
#include "cli/event_line.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "intake/wall_time.h"
#include "messages/json.h"
#include "offline/commands.h"
#include "offline/last_events.h"
#include "offline/recorded_events.h"
#include "offline/recording_changes.h"

namespace forestall::cli {
namespace {

using Kinds = std::bitset<32>;

// Earlier events that --follow begins with.
constexpr std::uint64_t kFollowedLimit = 10;

struct Filter {
  std::int64_t since_ns = INT64_MIN;
  std::int64_t until_ns = INT64_MAX;
  Kinds kinds;

  [[nodiscard]] bool passes(EventKind kind, std::int64_t wall_ns) const {
    return kinds.test(static_cast<std::size_t>(kind)) && wall_ns >= since_ns && wall_ns <= until_ns;
  }
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
        fmt::format("the agent at {} records nothing; set `recording` in its configuration, name a "
                    "recording, or run `forestall trace --kind agent`",
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
  return intake::wall_time_text(wall_ns_of(line.event)) + " " + printable(sentence_of(line));
}

// What one call of this command prints.
class EventsPrinter {
 public:
  EventsPrinter(RecordedEvents& events, const Filter& filter, OutputFormat format)
      : events_(events), filter_(filter), format_(format) {}

  // All events up to now in the order of time, or the last ones. With a limit an event becomes text
  // only if it is printed; without one the texts need less memory.
  Result<void> print_sorted(std::uint64_t limit) {
    return limit == 0 ? print_sorted<std::string>(
                            0, [this](const EventLine& line) { return text_of(line, format_); },
                            [](const std::string& text) { print(text); })
                      : print_sorted<EventLine>(
                            limit, [](EventLine line) { return line; },
                            [this](const EventLine& line) { print(text_of(line, format_)); });
  }

  // Events since the last call, in the order in which they were recorded.
  Result<void> print_new() {
    return visit([this](const EventLine& line) { print(text_of(line, format_)); });
  }

  // Those that were not printed before.
  void print_remarks() {
    const std::vector<std::string>& remarks = events_.input().remarks();
    for (; remarks_ < remarks.size(); ++remarks_) {
      fmt::print(stderr, "forestall events: {}\n", printable(remarks[remarks_]));
    }
    const std::uint64_t more = events_.incomplete() - incomplete_;
    if (more == 0) return;
    incomplete_ += more;
    fmt::print(stderr, "forestall events: {} records are left out: their evaluations are lost\n",
               more);
  }

 private:
  // main() reports a failed write.
  static void print(const std::string& text) { std::puts(text.c_str()); }

  Result<void> visit(const EventLineVisit& visit) {
    return events_.visit([&](EventLine line) {
      if (filter_.passes(line.kind, wall_ns_of(line.event))) visit(std::move(line));
    });
  }

  template <typename Item, typename Keep, typename Print>
  Result<void> print_sorted(std::uint64_t limit, Keep keep, Print print_item) {
    LastEvents<Item> last(limit);
    const auto visited = visit([&](EventLine line) {
      const std::int64_t at_ns = line.event.at_ns();
      last.add(events_.run(), at_ns, keep(std::move(line)));
    });
    last.visit(print_item);
    return visited;
  }

  RecordedEvents& events_;
  const Filter& filter_;
  const OutputFormat format_;
  std::size_t remarks_ = 0;
  std::uint64_t incomplete_ = 0;
};

// Until the recording is closed, or the reader of the output is gone.
Result<void> follow(RecordedEvents& events, EventsPrinter& printer, RecordingChanges& changes) {
  while (std::fflush(stdout) == 0 && !events.input().is_over()) {
    if (!TRY(changes.wait())) break;
    const auto printed = printer.print_new();
    printer.print_remarks();
    if (!printed) return printed;
  }
  return {};
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
  // Before the first read, so that no change is missed.
  std::optional<RecordingChanges> changes;
  if (given.follow) changes.emplace(path);
  auto input = replay::RecordingInput::open(path);
  if (!input) return fail("events", input.error(), kExitUsage);
  // The agent's own recording is not closed while it runs, which is no remark.
  if (given.follow || given.path.empty()) input->follow();
  const bool few = given.follow && given.limit == 0 && given.since.empty();
  RecordedEvents events(std::move(*input));
  EventsPrinter printer(events, *filter, options.output);
  auto done = printer.print_sorted(few ? kFollowedLimit : given.limit);
  printer.print_remarks();
  if (done && changes) done = follow(events, printer, *changes);
  if (!done) return fail("events", done.error().in(path), kExitUsage);
  return kExitOk;
}

}  // namespace forestall::cli
