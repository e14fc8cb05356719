// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_question.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "base/parse.h"
#include "intake/amounts.h"
#include "intake/cgroup_glob.h"
#include "messages/yaml_message.h"
#include "sources/pod_paths.h"

namespace forestall::trace {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, kTraceKinds> kWords{
    "memcg-reclaim", "direct-reclaim", "kswapd", "stall",         "compaction", "throttled",
    "oom",           "pressure",       "usage",  "reclaim-count", "agent",      "cgroup"};

// Word for several kinds.
constexpr std::string_view kReclaim = "reclaim";
constexpr std::string_view kAll = "all";

constexpr std::int64_t kSmallestRing = 64 * 1024;
constexpr std::int64_t kLargestRing = std::int64_t{1} << 30;
constexpr std::size_t kPodsShown = 10;
constexpr std::size_t kDefaultRing = std::size_t{16} << 20;

TraceKindSet set_of(std::initializer_list<TraceKind> kinds) {
  TraceKindSet set;
  for (const TraceKind kind : kinds) set.set(static_cast<std::size_t>(kind));
  return set;
}

std::string all_words() {
  std::string words;
  for (const std::string_view each : kWords) words.append(each).append(", ");
  return words + "reclaim (the first three) or all";
}

Result<TraceKindSet> parse_kinds(const std::vector<std::string>& lists) {
  TraceKindSet kinds;
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const std::string_view word = next_field(rest, ',');
      const auto* found = std::ranges::find(kWords, word);
      if (word == kAll) {
        kinds.set();
      } else if (word == kReclaim) {
        kinds |= set_of({TraceKind::memcg_reclaim, TraceKind::direct_reclaim, TraceKind::kswapd});
      } else if (found != kWords.end()) {
        kinds.set(static_cast<std::size_t>(found - kWords.begin()));
      } else {
        return error(fmt::format("--kind: unknown kind '{}'; kinds are: {}", word, all_words()));
      }
    }
  }
  return kinds;
}

Result<Duration> parse_time(const char* option, const std::string& text, Duration least,
                            Duration most) {
  const auto parsed = intake::parse_duration_within(text, least, most);
  if (!parsed) return error(fmt::format("{}: {}", option, parsed.error().message));
  return *parsed;
}

Result<std::size_t> parse_ring(const std::string& text) {
  if (text.empty()) return kDefaultRing;
  const auto parsed = intake::parse_positive_bytes(text);
  if (!parsed) return error("--buffer: " + parsed.error().message);
  if (parsed->count < kSmallestRing || parsed->count > kLargestRing) {
    return error(fmt::format("--buffer: '{}' is not between 64Ki and 1Gi", text));
  }
  return std::bit_ceil(static_cast<std::size_t>(parsed->count));
}

Result<bool> parse_color(const std::string& word) {
  if (word == "always") return true;
  if (word == "never") return false;
  if (word != "auto") {
    return error(fmt::format("--color: expected auto, always or never, found '{}'", word));
  }
  // https://no-color.org: set and not empty.
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && ::isatty(STDOUT_FILENO) == 1;
}

Result<TraceFormat> parse_format(const std::string& word) {
  if (word == "text") return TraceFormat::text;
  if (word == "json") return TraceFormat::json;
  if (word == "pb") return TraceFormat::pb;
  return error(fmt::format("--output: expected text, json or pb, found '{}'", word));
}

// An API server's UUID, or the hash of a static pod's manifest.
bool has_form_of_uid(std::string_view word) {
  return (word.size() == 36 || word.size() == 32) &&
         word.find_first_not_of("0123456789abcdef-") == word.npos;
}

// "; did you mean 'web'? Known pods: web, shop/web, db and 3 more".
std::string known_pods_text(const std::string& pod, const KnownPods& known) {
  std::vector<std::string> words;
  for (const auto& [name, uid] : known.uid_of_name) words.push_back(name);
  words.insert(words.end(), known.uids.begin(), known.uids.end());
  if (words.empty()) {
    return "; no pods are known: give the UID, or set podList in the configuration to use names";
  }
  const auto near = messages::nearest_word(pod, words);
  const std::size_t shown = std::min(words.size(), kPodsShown);
  std::string text = near ? fmt::format("; did you mean '{}'?", *near) : ".";
  text += fmt::format(
      " Known pods: {}",
      fmt::join(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < words.size()) text += fmt::format(" and {} more", words.size() - shown);
  return text;
}

// What names the pod alone: its namespace/name, or its UID if it has none.
std::string unique_name(const std::string& uid, const KnownPods& known) {
  for (const auto& [name, named] : known.uid_of_name) {
    if (named == uid && name.find('/') != std::string::npos) return name;
  }
  return uid;
}

// The pod with the name; nothing: there is none. Pods of several namespaces may have the same name.
Result<std::optional<std::string>> uid_of_name(const std::string& pod, const KnownPods& known) {
  std::set<std::string> uids;
  for (const auto& [name, uid] : known.uid_of_name) {
    if (name == pod) uids.insert(uid);
  }
  if (uids.empty()) return std::optional<std::string>();
  // A static pod has the UID of its mirror pod too, without a cgroup.
  std::set<std::string> present;
  for (const std::string& uid : known.uids) {
    if (uids.contains(uid)) present.insert(uid);
  }
  if (present.size() == 1) return std::optional(*present.begin());
  if (uids.size() == 1) return std::optional(*uids.begin());
  std::set<std::string> names;
  for (const std::string& uid : uids) names.insert(unique_name(uid, known));
  return error(fmt::format("--pod: {} pods have the name '{}'; give one of: {}", uids.size(), pod,
                           fmt::join(names, ", ")));
}

// A pod may start after the trace, so a UID is only warned of.
Result<std::string> uid_of(const std::string& pod, const KnownPods& known,
                           std::vector<std::string>& warnings) {
  if (const auto named = TRY(uid_of_name(pod, known))) return *named;
  if (std::ranges::find(known.uids, pod) != known.uids.end()) return pod;
  if (!has_form_of_uid(pod)) {
    return error(
        fmt::format("--pod: no pod has the name or UID '{}'{}", pod, known_pods_text(pod, known)));
  }
  warnings.push_back(
      fmt::format("--pod: no pod has the UID '{}' at present{}", pod, known_pods_text(pod, known)));
  return pod;
}

std::string_view parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, path.size() > 1 ? 1 : 0) : path.substr(0, slash);
}

}  // namespace

std::string_view trace_word(TraceKind kind) {
  return kWords[static_cast<std::size_t>(kind)];
}

std::optional<abi_trace_kind> abi_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::memcg_reclaim: return ABI_TRACE_memcg_reclaim;
    case TraceKind::direct_reclaim: return ABI_TRACE_direct_reclaim;
    case TraceKind::kswapd: return ABI_TRACE_kswapd;
    case TraceKind::stall: return ABI_TRACE_stall;
    case TraceKind::compaction: return ABI_TRACE_compaction;
    case TraceKind::throttled: return ABI_TRACE_throttled;
    case TraceKind::oom: return ABI_TRACE_oom_kill;
    case TraceKind::cgroup: return ABI_TRACE_path;
    case TraceKind::pressure:
    case TraceKind::usage:
    case TraceKind::reclaim_count:
    case TraceKind::agent: break;
  }
  return std::nullopt;
}

v1::SpanKind span_kind_of(abi_trace_kind kind) {
  switch (kind) {
    case ABI_TRACE_memcg_reclaim: return v1::MEMCG_RECLAIM;
    case ABI_TRACE_direct_reclaim: return v1::DIRECT_RECLAIM;
    case ABI_TRACE_kswapd: return v1::KSWAPD;
    case ABI_TRACE_stall: return v1::STALL;
    case ABI_TRACE_compaction: return v1::COMPACTION;
    case ABI_TRACE_throttled: return v1::THROTTLED;
    default: return v1::SPAN_KIND_UNSPECIFIED;
  }
}

Result<CgroupChoice> CgroupChoice::create(const std::vector<std::string>& globs,
                                          const std::vector<std::string>& pod_uids) {
  for (const std::string& glob : globs) {
    if (const auto checked = intake::check_glob(glob); !checked) {
      return error(fmt::format("--cgroup '{}': {}", glob, checked.error().message));
    }
  }
  CgroupChoice choice;
  choice.globs_ = globs;
  choice.pods_ = pod_uids;
  return choice;
}

bool CgroupChoice::names(const std::string& path) const {
  const bool by_glob = std::ranges::any_of(globs_, [&](const std::string& glob) {
    return ::fnmatch(glob.c_str(), path.c_str(), FNM_PATHNAME) == 0;
  });
  if (by_glob || pods_.empty()) return by_glob;
  const auto pod = sources::parse_pod_path(path);
  return pod && pod->cgroup == path && std::ranges::find(pods_, pod->uid) != pods_.end();
}

bool CgroupChoice::covers(std::string_view path) const {
  if (all()) return true;
  for (; !path.empty(); path = parent_of(path)) {
    if (names(std::string(path))) return true;
    if (path == "/") break;
  }
  return false;
}

Result<TraceQuestion> understand_trace(const TraceOptions& options, const KnownPods& known) {
  TraceQuestion question;
  std::vector<std::string> uids;
  for (const std::string& pod : options.pods) {
    uids.push_back(TRY(uid_of(pod, known, question.warnings)));
  }
  question.choice = TRY(CgroupChoice::create(options.cgroups, uids));
  question.kinds_given = !options.kinds.empty();
  if (question.kinds_given) {
    question.kinds = TRY(parse_kinds(options.kinds));
  } else {
    question.kinds.set().reset(static_cast<std::size_t>(TraceKind::cgroup));
  }
  if (!options.shortest.empty()) {
    question.shortest = TRY(parse_time("--min", options.shortest, 0ns, 1h));
  }
  if (!options.summary.empty()) {
    question.summary = TRY(parse_time("--summary", options.summary, 100ms, 1h));
  }
  if (!options.duration.empty()) {
    question.duration = TRY(parse_time("--duration", options.duration, 1ms, 8760h));
  }
  question.ring_bytes = TRY(parse_ring(options.buffer));
  question.color = TRY(parse_color(options.color));
  question.format = TRY(parse_format(options.format));
  if (options.top == 0) return error("--top: expected 1 or more");
  question.top = options.top;
  question.count = options.count;
  question.begins = options.begins;
  question.with_agent = !options.without_agent;
  return question;
}

}  // namespace forestall::trace
