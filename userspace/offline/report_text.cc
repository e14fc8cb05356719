// SPDX-License-Identifier: Apache-2.0
#include "offline/report_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/printable.h"
#include "messages/json.h"
#include "tables/process_text.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

constexpr int kCandidatesShown = 5;

// Text from other programs: no Markdown or HTML in it takes effect.
std::string plain(std::string_view text) {
  std::string safe;
  // Process names may contain terminal control sequences.
  for (const char c : printable(text)) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      if (std::string_view("\\`*_{}[]()#+!|~>$@").find(c) != std::string_view::npos) safe += '\\';
      safe += c;
    }
  }
  return safe;
}

std::string time_of(const internal::Picture& picture, std::int64_t at_us) {
  const std::chrono::sys_time<std::chrono::microseconds> at(
      std::chrono::microseconds(picture.origin_unix_us() + at_us));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
  return fmt::format("{:%F %H:%M:%S}.{:03}", fmt::gmtime(seconds),
                     (at - seconds) / std::chrono::milliseconds(1));
}

std::string length(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return fmt::format("{:.0f} us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

template <typename Enum>
std::string value_word(const google::protobuf::EnumDescriptor& words, Enum value) {
  const auto* found = words.FindValueByNumber(static_cast<int>(value));
  return found == nullptr ? "unknown" : messages::enum_word(*found);
}

std::string amount(internal::Gauge::Unit unit, std::int64_t count) {
  return unit == internal::Gauge::BYTES ? tables::human(Bytes{count}) : fmt::format("{}", count);
}

void add_head(const internal::Picture& picture, std::string& out) {
  const internal::PictureOrigin& origin = picture.origin();
  out +=
      fmt::format("# Forestall: {}\n\n", plain(origin.node().empty() ? "report" : origin.node()));
  out += fmt::format("{} to {} UTC, Linux {}, tier {}, forestall {}{}\n\n",
                     time_of(picture, picture.from_us()), time_of(picture, picture.to_us()),
                     plain(origin.kernel()),
                     value_word(*v1::DoctorReport::Tier_descriptor(), origin.tier()),
                     plain(origin.version()), origin.dry_run() ? ", dry run" : "");
  for (const std::string& remark : picture.remarks()) {
    out += fmt::format("> **Incomplete:** {}\n", plain(remark));
  }
  if (picture.remarks_size() > 0) out += "\n";
}

void add_summary(const internal::Picture& picture, std::string& out) {
  const internal::PictureSummary& summary = picture.summary();
  out += "| | |\n|---|---|\n";
  for (const internal::Gauge& gauge : picture.gauges()) {
    const bool met = std::ranges::any_of(
        gauge.thresholds(),
        [&](const internal::GaugeThreshold& each) { return gauge.least() < each.limit(); });
    if (!met && &gauge != &picture.gauges(0)) continue;
    std::string limits;
    for (const internal::GaugeThreshold& each : gauge.thresholds()) {
      limits += (limits.empty() ? "" : ", ") + plain(each.quantity());
    }
    out += fmt::format("| minimum {} of {} | {} at {} (thresholds: {}) |\n", gauge.signal(),
                       plain(gauge.subject()), amount(gauge.unit(), gauge.least()),
                       time_of(picture, gauge.least_at_us()), limits);
  }
  out += fmt::format("| killed by Forestall | {} ({} released) |\n", summary.kills(),
                     tables::human(Bytes{summary.freed_bytes()}));
  if (summary.would_kills() > 0) {
    out += fmt::format("| would have been killed | {} |\n", summary.would_kills());
  }
  out += fmt::format("| killed by the kernel (OOM) | {}", summary.kernel_ooms());
  if (summary.kernel_ooms_elsewhere() > 0) {
    out += fmt::format(", {} of them where no threshold evicts", summary.kernel_ooms_elsewhere());
  }
  out += " |\n";
  if (summary.has_median_to_signal_ns()) {
    out +=
        fmt::format("| crossing to SIGKILL, at most | median {}, longest {} |\n",
                    length(summary.median_to_signal_ns()), length(summary.longest_to_signal_ns()));
  }
  for (const internal::Span& span : picture.spans()) {
    if (span.kind() != internal::Span::LOST) continue;
    out += fmt::format("| no data | {} to {} |\n", time_of(picture, span.from_us()),
                       time_of(picture, span.to_us()));
  }
  out += fmt::format("| evaluations | {} |\n", summary.evaluations());
}

std::string why(const v1::Decision& decision) {
  if (!decision.has_driving() || static_cast<int>(decision.driving()) >= decision.evidence_size()) {
    return value_word(*v1::Decision::Reason_descriptor(), decision.reason());
  }
  const v1::Evidence& evidence = decision.evidence(static_cast<int>(decision.driving()));
  return fmt::format("{} of {} below {}", evidence.threshold().signal(), plain(evidence.subject()),
                     evidence.limit_quantity());
}

std::string outcome_of(const internal::Moment& moment) {
  if (!moment.record().has_outcome()) return "";
  const v1::Outcome& outcome = moment.record().outcome();
  if (outcome.dry_run()) return "dry run";
  return fmt::format("{}, {} back",
                     value_word(*v1::KillProgress::State_descriptor(), outcome.state()),
                     tables::human(Bytes{outcome.freed_bytes()}));
}

std::string stages_of(const internal::Moment& moment) {
  std::string text;
  for (const v1::StageLength& each : moment.stages()) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", each.stage(), length(each.length_ns()));
  }
  return text;
}

void add_decisions(const internal::Picture& picture, std::string& out) {
  out += "\n## Decisions\n\n";
  bool any = false;
  for (const internal::Moment& moment : picture.moments()) {
    const bool kills =
        moment.kind() == internal::Moment::KILL || moment.kind() == internal::Moment::WOULD_KILL;
    if (!kills && moment.kind() != internal::Moment::RECLAIM) continue;
    if (!any)
      out += "| time (UTC) | what | victim | why | outcome | stages |\n|---|---|---|---|---|---|\n";
    any = true;
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", time_of(picture, moment.at_us()),
                       value_word(*internal::Moment::Kind_descriptor(), moment.kind()),
                       plain(moment.victim()), why(moment.record().decision()), outcome_of(moment),
                       stages_of(moment));
  }
  if (!any) out += "No workload was evicted.\n";
}

// The candidates of the first decision to kill.
void add_ranking(const internal::Picture& picture, std::string& out) {
  const auto kill = std::ranges::find_if(picture.moments(), [](const internal::Moment& moment) {
    return moment.kind() != internal::Moment::KERNEL_OOM &&
           moment.record().decision().evictions_size() > 0 &&
           moment.record().decision().considered_size() > 0;
  });
  if (kill == picture.moments().end()) return;
  const v1::Decision& decision = kill->record().decision();
  out += fmt::format("\n## Ranking at {}\n\n", time_of(picture, kill->at_us()));
  out +=
      "| # | workload | over its request | priority | usage | request | |\n"
      "|---|---|---|---|---|---|---|\n";
  const int shown = std::min(decision.considered_size(), kCandidatesShown);
  for (int i = 0; i < shown; ++i) {
    const v1::Candidate& each = decision.considered(i);
    const bool goes = std::ranges::any_of(decision.evictions(), [&](const v1::Eviction& eviction) {
      return static_cast<int>(eviction.candidate()) == i;
    });
    const bool passed = each.exclusion() > v1::Candidate::NONE;
    out += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} |\n", i + 1, plain(each.sample().workload().name()),
        each.key().exceeds_request() ? "yes" : "no", each.key().priority(),
        tables::human(Bytes{each.key().usage()}), tables::human(Bytes{each.key().request()}),
        goes     ? "victim"
        : passed ? value_word(*v1::Candidate::Exclusion_descriptor(), each.exclusion())
                 : "");
  }
  const std::uint64_t more =
      static_cast<std::uint64_t>(decision.considered_size() - shown) + kill->considered_left_out();
  if (more > 0) out += fmt::format("\nand {} more\n", more);
}

void add_kernel_kills(const internal::Picture& picture, std::string& out) {
  out += "\n## Kernel OOM kills\n\n";
  bool any = false;
  for (const internal::Moment& moment : picture.moments()) {
    if (moment.kind() != internal::Moment::KERNEL_OOM) continue;
    if (!any) {
      out +=
          "| time (UTC) | process | cgroup | out of memory | why the agent had not acted |\n"
          "|---|---|---|---|---|\n";
    }
    any = true;
    const v1::OomKill& kill = moment.record().oom_kill();
    const v1::OomKillEvent& seen = kill.event();
    out += fmt::format("| {} | {} ({}) | {} | {} | {} |\n", time_of(picture, moment.at_us()),
                       plain(seen.name()), seen.victim().pid(), plain(seen.path()),
                       plain(seen.domain_path().empty() ? "node" : seen.domain_path()),
                       value_word(*v1::OomKill::Inaction_descriptor(), kill.inaction()));
  }
  if (!any) out += "None.\n";
  if (picture.moments_left_out() > 0) {
    out += fmt::format("\n{} more records are left out.\n", picture.moments_left_out());
  }
}

}  // namespace

std::string report_text(const internal::Picture& picture) {
  std::string out;
  add_head(picture, out);
  add_summary(picture, out);
  add_decisions(picture, out);
  add_ranking(picture, out);
  add_kernel_kills(picture, out);
  return out;
}

}  // namespace forestall::cli
