// SPDX-License-Identifier: Apache-2.0
#include "sources/oom_summary.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/parse.h"

namespace forestall::sources {
namespace {

constexpr std::string_view kBegin = "oom-kill:constraint=";
// A name that contains an anchor more often than this was made to be misread.
constexpr std::size_t kAnchorsMax = 16;

constexpr std::pair<std::string_view, Constraint> kConstraints[] = {
    {"CONSTRAINT_NONE,", Constraint::none},
    {"CONSTRAINT_CPUSET,", Constraint::cpuset},
    {"CONSTRAINT_MEMORY_POLICY,", Constraint::memory_policy},
    {"CONSTRAINT_MEMCG,", Constraint::memcg},
};

// Positions of `anchor` in `text`; stops after kAnchorsMax + 1.
std::vector<std::size_t> find_all(std::string_view text, std::string_view anchor) {
  std::vector<std::size_t> places;
  for (auto at = text.find(anchor); at != std::string_view::npos; at = text.find(anchor, at + 1)) {
    places.push_back(at);
    if (places.size() > kAnchorsMax) break;
  }
  return places;
}

// Cuts ",name=<number>" off the end.
std::optional<std::uint64_t> cut_number(std::string_view& line, std::string_view name) {
  const auto at = line.rfind(name);
  if (at == std::string_view::npos) return std::nullopt;
  const auto value = parse_u64(line.substr(at + name.size()));
  if (value) line = line.substr(0, at);
  return value;
}

// Cuts the numeric fields off the end; returns the pid.
std::optional<pid_t> cut_ids(std::string_view& line) {
  if (!cut_number(line, ",uid=")) return std::nullopt;
  const auto pid = cut_number(line, ",pid=");
  if (!pid || *pid > std::numeric_limits<pid_t>::max()) return std::nullopt;
  return static_cast<pid_t>(*pid);
}

// Cuts ",task=<comm>" off the end. If the process was renamed between the two lines, cuts at the
// last ",task=", which is right unless the name contains one.
bool cut_name(std::string_view& line, std::string_view comm) {
  const auto whole = std::string(",task=").append(comm);
  if (line.ends_with(whole)) {
    line.remove_suffix(whole.size());
    return true;
  }
  const auto at = line.rfind(",task=");
  if (at == std::string_view::npos) return false;
  line = line.substr(0, at);
  return true;
}

// The text after the first `anchor`, which ends with the '/' of a path. Before it there are only
// fixed words, numbers and the name of a cpuset, which is one directory's and contains no '/'.
std::optional<std::string_view> after_anchor(std::string_view text, std::string_view anchor) {
  const auto at = text.find(anchor);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + anchor.size() - 1);
}

// "…,oom_memcg=/a,task_memcg=/a/b": the victim's group is the domain's or a descendant of it.
void take_memcg_paths(std::string_view text, OomSummary& summary) {
  constexpr std::string_view kVictim = ",task_memcg=";
  const auto paths = after_anchor(text, ",oom_memcg=/");
  if (!paths) return;
  const auto places = find_all(*paths, ",task_memcg=/");
  if (places.size() > kAnchorsMax) return;
  std::size_t readings = 0;
  for (const auto place : places) {
    const auto domain = paths->substr(0, place);
    const auto victim = paths->substr(place + kVictim.size());
    if (!path_is_within(victim, domain)) continue;
    ++readings;
    summary.domain = domain;
    summary.victim = victim;
  }
  if (readings != 1) summary.domain = summary.victim = {};
}

void take_victim_path(std::string_view text, OomSummary& summary) {
  summary.victim = after_anchor(text, ",global_oom,task_memcg=/").value_or("");
}

}  // namespace

bool oom_summary_complete(std::string_view line) {
  return cut_ids(line).has_value();
}

std::optional<OomSummary> parse_oom_summary(std::string_view line, std::string_view comm) {
  const auto pid = cut_ids(line);
  if (!pid || !line.starts_with(kBegin) || !cut_name(line, comm)) return std::nullopt;
  line.remove_prefix(kBegin.size());
  OomSummary summary;
  summary.pid = *pid;
  for (const auto& [word, constraint] : kConstraints) {
    if (!line.starts_with(word)) continue;
    summary.constraint = constraint;
    if (constraint == Constraint::memcg) take_memcg_paths(line, summary);
    if (constraint != Constraint::memcg) take_victim_path(line, summary);
    return summary;
  }
  return std::nullopt;
}

}  // namespace forestall::sources
