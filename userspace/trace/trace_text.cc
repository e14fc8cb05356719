// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>

#include "base/printable.h"
#include "messages/json.h"
#include "tables/process_text.h"
#include "tables/table.h"
#include "trace/trace_question.h"
#include "trace/trace_summary.h"

namespace forestall::trace {
namespace {

constexpr std::int64_t kMs = 1'000'000;
// Above kNotable a wait is noticeable; above the next limit it is an incident.
constexpr std::int64_t kNotable = 10 * kMs;
constexpr std::int64_t kSevereStall = 100 * kMs;

// The columns after the kind: length, scanned, freed, pid, name.
constexpr std::string_view kHead = "{:<15} {:<15} {:>9} {:>8} {:>8} {:>8} {:<15} {}\n";

std::string word_of(const google::protobuf::EnumDescriptor& words, int value) {
  const auto* found = words.FindValueByNumber(value);
  return found == nullptr ? "unknown" : messages::enum_word(*found);
}

// Local time with microseconds. The conversion to local time is costly, so it is done once per
// second.
void append_time(const google::protobuf::Timestamp& time, std::string& out) {
  thread_local std::time_t second = -1;
  thread_local std::array<char, 16> text{};
  if (time.seconds() != second) {
    second = time.seconds();
    std::tm local{};
    ::localtime_r(&second, &local);
    std::strftime(text.data(), text.size(), "%H:%M:%S", &local);
  }
  fmt::format_to(std::back_inserter(out), "{}.{:06}", text.data(), time.nanos() / 1000);
}

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// The cgroup's path, its inode if the path is unknown, "node" without a cgroup.
std::string place_of(const v1::Event& event) {
  if (!event.cgroup().empty()) return printable(event.cgroup());
  return event.has_cgroup_id() ? fmt::format("cgroup:{}", event.cgroup_id()) : "node";
}

}  // namespace

std::string short_length(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1000) return fmt::format("{} ns", ns);
  const auto scaled = [](double in_unit, const char* unit) {
    const int digits = in_unit < 9.995 ? 2 : in_unit < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", in_unit, digits, unit);
  };
  if (ns < 999'500) return scaled(value / 1e3, "us");
  if (ns < 999'500'000) return scaled(value / 1e6, "ms");
  return scaled(value / 1e9, "s");
}

std::string_view span_word(v1::SpanKind kind) {
  switch (kind) {
    case v1::MEMCG_RECLAIM: return trace_word(TraceKind::memcg_reclaim);
    case v1::DIRECT_RECLAIM: return trace_word(TraceKind::direct_reclaim);
    case v1::KSWAPD: return trace_word(TraceKind::kswapd);
    case v1::STALL: return trace_word(TraceKind::stall);
    case v1::COMPACTION: return trace_word(TraceKind::compaction);
    case v1::THROTTLED: return trace_word(TraceKind::throttled);
    default: return "unknown";
  }
}

void TraceText::paint(Tone tone, std::string& out) const {
  if (!color_) return;
  switch (tone) {
    case Tone::plain: out += "\x1b[0m"; break;
    case Tone::faint: out += "\x1b[2m"; break;
    case Tone::good: out += "\x1b[32m"; break;
    case Tone::notable: out += "\x1b[33m"; break;
    case Tone::severe: out += "\x1b[1;31m"; break;
  }
}

void TraceText::head(std::string& out) const {
  paint(Tone::faint, out);
  fmt::format_to(std::back_inserter(out), fmt::runtime(kHead), "TIME", "KIND", "LENGTH", "SCANNED",
                 "FREED", "PID", "NAME", "CGROUP");
  paint(Tone::plain, out);
}

void TraceText::begin_line(const v1::Event& event, std::string_view kind, Tone tone,
                           std::string& out) const {
  paint(Tone::faint, out);
  append_time(event.wall_time(), out);
  paint(Tone::plain, out);
  out += ' ';
  paint(tone, out);
  fmt::format_to(std::back_inserter(out), "{:<15}", kind);
  if (tone != Tone::plain) paint(Tone::plain, out);
  out += ' ';
}

void TraceText::span(const v1::Event& event, std::string& out) const {
  const v1::SpanEvent& span = event.span();
  const Tone tone = span.kind() == v1::KSWAPD          ? Tone::faint
                    : span.length_ns() >= kSevereStall ? Tone::severe
                    : span.length_ns() >= kNotable     ? Tone::notable
                                                       : Tone::plain;
  begin_line(event, span_word(span.kind()), tone, out);
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{:>9} ", span.begins() ? "begins" : short_length(span.length_ns()));
  if (span.has_scanned_pages()) {
    fmt::format_to(to, "{:>8} {:>8} ", span.scanned_pages(), span.reclaimed_pages());
  } else {
    out.append(18, ' ');
  }
  fmt::format_to(to, "{:>8} {:<15} {}", span.pid(), printable(span.name()), place_of(event));
  if (span.has_numa_node()) fmt::format_to(to, " {}", span.numa_node());
  if (span.has_subject_id() && span.subject_id() != event.cgroup_id()) {
    fmt::format_to(to, " for {}",
                   span.subject().empty() ? fmt::format("cgroup:{}", span.subject_id())
                                          : printable(span.subject()));
  }
  out += '\n';
}

void TraceText::oom_kill(const v1::Event& event, std::string& out) const {
  const v1::OomKillEvent& kill = event.oom_kill().event();
  begin_line(event, "oom-kill", Tone::severe, out);
  auto to = std::back_inserter(out);
  out.append(28, ' ');
  fmt::format_to(to, "{:>8} {:<15} {}", kill.victim().pid(), printable(kill.name()),
                 place_of(event));
  if (kill.has_memory()) {
    static const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    const auto pages = [](std::int64_t count) { return tables::human(Bytes{count * page}); };
    fmt::format_to(to, " anon {} file {} shmem {} swap {}", pages(kill.memory().anon_pages()),
                   pages(kill.memory().file_pages()), pages(kill.memory().shmem_pages()),
                   pages(kill.memory().swap_pages()));
  }
  fmt::format_to(to, " oom_score_adj {}", kill.oom_score_adj());
  if (!kill.killer_name().empty()) {
    fmt::format_to(to, "; {} ({}) could not allocate", printable(kill.killer_name()),
                   kill.killer().pid());
  }
  out += '\n';
}

void TraceText::decision(const v1::Event& event, std::string& out) const {
  const v1::DecisionEvent& decision = event.decision();
  const bool acts = decision.action() == v1::Decision::KILL;
  begin_line(event, "decision", acts ? Tone::severe : Tone::plain, out);
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{} ({})", word_of(*v1::Decision::Action_descriptor(), decision.action()),
                 word_of(*v1::Decision::Reason_descriptor(), decision.reason()));
  if (!decision.victim().empty()) {
    fmt::format_to(to, " {}", printable(decision.victim()));
    if (decision.has_usage_bytes()) {
      fmt::format_to(to, ", {}", tables::human(Bytes{decision.usage_bytes()}));
    }
  }
  if (!decision.signal().empty()) {
    fmt::format_to(to, "; {} of {}", decision.signal(), printable(decision.subject()));
  }
  fmt::format_to(to, "; record {}\n", decision.sequence());
}

void TraceText::outcome(const v1::Event& event, std::string& out) const {
  const v1::OutcomeEvent& outcome = event.outcome();
  const bool good = outcome.state() == v1::KillProgress::RELEASED;
  begin_line(event, "outcome", good ? Tone::good : Tone::severe, out);
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{} {}{}", printable(outcome.victim()),
                 word_of(*v1::KillProgress::State_descriptor(), outcome.state()),
                 outcome.dry_run() ? " (dry run)" : "");
  if (outcome.freed_bytes() > 0)
    fmt::format_to(to, ", {}", tables::human(Bytes{outcome.freed_bytes()}));
  if (outcome.has_signalled_after_ns()) {
    fmt::format_to(to, "; signalled after at most {}", short_length(outcome.signalled_after_ns()));
  }
  if (outcome.has_freed_after_ns()) {
    fmt::format_to(to, ", memory released {} later", short_length(outcome.freed_after_ns()));
  }
  fmt::format_to(to, "; record {}\n", outcome.sequence());
}

void TraceText::pressure(const v1::Event& event, std::string& out) const {
  const v1::PressureEvent& pressure = event.pressure();
  const std::int64_t window = pressure.window_ns();
  const Tone tone = pressure.full_ns() * 10 >= window   ? Tone::severe
                    : pressure.some_ns() * 10 >= window ? Tone::notable
                                                        : Tone::plain;
  begin_line(event, "pressure", tone, out);
  fmt::format_to(std::back_inserter(out), "some {:>7}, full {:>7} of {}{:>27}{}\n",
                 percent(pressure.some_ns(), window), percent(pressure.full_ns(), window),
                 short_length(window), "", place_of(event));
}

void TraceText::start(const v1::TraceStartEvent& start, std::string& out) const {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "forestall {} on Linux {}, tier {}. Ctrl-C ends.\n", start.version(),
                 start.kernel(), word_of(*v1::DoctorReport::Tier_descriptor(), start.tier()));
  for (const v1::TraceSight& sight : start.sights()) {
    // For a traced kind, the text after a semicolon states the part that is missing.
    if (sight.seen() && sight.evidence().find("; ") == std::string::npos) continue;
    paint(Tone::notable, out);
    fmt::format_to(to, "{}: {}", sight.seen() ? "traced in part" : "not traced", sight.kind());
    paint(Tone::plain, out);
    fmt::format_to(to, ": {}\n", printable(sight.evidence()));
  }
}

void TraceText::end(const v1::TraceEndEvent& end, std::string& out) const {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "\nTotals of {}, whether shown or not\n", short_length(end.length_ns()));
  tables::Table table(
      {"kind", "count", "time", "scanned", "freed", "shown", "filtered", "dropped"});
  for (const v1::SpanTotal& each : end.totals()) {
    const bool reclaim = each.scanned_pages() > 0 || each.reclaimed_pages() > 0;
    table.add({std::string(span_word(each.kind())), fmt::format("{}", each.count()),
               short_length(each.length_ns()),
               reclaim ? fmt::format("{}", each.scanned_pages()) : "-",
               reclaim ? fmt::format("{}", each.reclaimed_pages()) : "-",
               fmt::format("{}", each.reported()), fmt::format("{}", each.passed_over()),
               fmt::format("{}", each.dropped())});
  }
  if (end.totals_size() > 0) out += table.text();
  fmt::format_to(to, "{} events shown, {} OOM kills\n", end.reported(), end.oom_kills());
  const bool lost = end.dropped_in_kernel() + end.failed_in_kernel() + end.dropped_by_agent() +
                        end.dropped_in_log() >
                    0;
  paint(lost ? Tone::severe : Tone::good, out);
  fmt::format_to(to,
                 "lost: {} records in the kernel, {} failures there, {} events of the agent, {} "
                 "records of the kernel's log",
                 end.dropped_in_kernel(), end.failed_in_kernel(), end.dropped_by_agent(),
                 end.dropped_in_log());
  for (const v1::BpfCounter& each : end.bpf_counters()) {
    if (each.value() == 0 || !each.loss()) continue;
    fmt::format_to(to, ", {} {} {}", each.counter(), each.kind(), each.value());
  }
  paint(Tone::plain, out);
  if (end.unpaired() > 0) {
    fmt::format_to(to, "\n{} began before the trace", end.unpaired());
  }
  out += '\n';
}

// Events without columns of their own.
void TraceText::others(const v1::Event& event, std::string& out) const {
  auto to = std::back_inserter(out);
  switch (event.what_case()) {
    case v1::Event::kUsage: {
      const v1::UsageEvent& usage = event.usage();
      begin_line(event, "usage", usage.rises() ? Tone::notable : Tone::good, out);
      fmt::format_to(to, "{} {} % of {} ({}){:>24}{}", usage.rises() ? "above" : "below",
                     usage.percent(), tables::human(Bytes{usage.limit_bytes()}),
                     tables::human(Bytes{usage.usage_bytes()}), "", place_of(event));
      break;
    }
    case v1::Event::kReclaimCount: {
      const v1::ReclaimCountEvent& count = event.reclaim_count();
      begin_line(event, "reclaim-count", Tone::plain, out);
      fmt::format_to(to, "{:>9} {:>8} {:>8} {:>8} {:<15} {}", short_length(count.window_ns()),
                     count.scanned_pages(), count.reclaimed_pages(), "", "", place_of(event));
      if (count.has_stalls()) fmt::format_to(to, " {} stalls", count.stalls());
      break;
    }
    case v1::Event::kCgroupChange:
      begin_line(event, "cgroup", Tone::faint, out);
      fmt::format_to(to, "{} {}", event.cgroup_change().removed() ? "removed" : "appeared",
                     place_of(event));
      break;
    case v1::Event::kThreshold: {
      const v1::ThresholdEvent& crossing = event.threshold();
      begin_line(event, "threshold", crossing.met() ? Tone::severe : Tone::good, out);
      fmt::format_to(to, "{} of {} {}", crossing.signal(), printable(crossing.subject()),
                     crossing.met() ? "MET" : "no longer met");
      break;
    }
    case v1::Event::kCondition:
      begin_line(event, "condition", event.condition().status() ? Tone::severe : Tone::good, out);
      fmt::format_to(to, "{} is {}", event.condition().type(), event.condition().status());
      break;
    case v1::Event::kEvaluation:
      begin_line(event, "evaluation", Tone::faint, out);
      fmt::format_to(to, "{:>9} woken by {}: {}", short_length(event.evaluation().length_ns()),
                     word_of(*v1::Wake::Source_descriptor(), event.evaluation().wake()),
                     word_of(*v1::Decision::Reason_descriptor(), event.evaluation().reason()));
      break;
    case v1::Event::kLost:
      begin_line(event, "LOST", Tone::severe, out);
      fmt::format_to(to, "{} events ({})", event.lost().count(), event.lost().where());
      break;
    case v1::Event::kRun:
      begin_line(event, "run", Tone::plain, out);
      fmt::format_to(to, "forestall {} begins to record", printable(event.run().facts().version()));
      break;
    case v1::Event::kReload:
      begin_line(event, "reload", Tone::plain, out);
      out += "another configuration is in force";
      break;
    default: return;
  }
  out += '\n';
}

void TraceText::append(const v1::Event& event, std::string& out) const {
  switch (event.what_case()) {
    case v1::Event::kSpan: span(event, out); break;
    case v1::Event::kOomKill: oom_kill(event, out); break;
    case v1::Event::kDecision: decision(event, out); break;
    case v1::Event::kOutcome: outcome(event, out); break;
    case v1::Event::kPressure: pressure(event, out); break;
    case v1::Event::kTraceStart: start(event.trace_start(), out); break;
    case v1::Event::kTraceEnd: end(event.trace_end(), out); break;
    case v1::Event::kSummary: append_summary(event, color_, out); break;
    default: others(event, out); break;
  }
}

}  // namespace forestall::trace
