// SPDX-License-Identifier: Apache-2.0
// `forestall status`: requests the status of the running agent over gRPC and prints it.
#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/printable.h"
#include "base/result.h"
#include "cli/agent_socket.h"
#include "cli/agent_status.h"
#include "cli/bpf_counter_text.h"
#include "cli/commands.h"
#include "cli/container_pressure_status.h"
#include "cli/exit_code.h"
#include "cli/managed_status.h"
#include "cli/shortened.h"
#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "model/signal.h"
#include "model/workload_example.h"
#include "tables/limit_text.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

std::string word_of(const google::protobuf::EnumDescriptor& words, int value) {
  const auto* found = words.FindValueByNumber(value);
  return found == nullptr ? "unknown" : messages::enum_word(*found);
}

std::string span(std::int64_t ns) {
  if (ns < 1'000'000) return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
  return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
}

std::string amount(const v1::Evidence& evidence, std::int64_t count) {
  const auto signal = parse_signal(evidence.threshold().signal());
  return signal && unit_of(*signal) != Unit::bytes ? fmt::format("{}", count)
                                                   : tables::human(Bytes{count});
}

// What annotations forestall.dev/... of pods do.
void print_annotations(const v1::PodFactCounts& pods) {
  if (pods.annotated() + pods.preferred() + pods.avoided() > 0) {
    const std::string usage =
        pods.has_annotated_usage_bytes()
            ? fmt::format(" (they use {})", tables::human(Bytes{pods.annotated_usage_bytes()}))
            : "";
    fmt::print("pods by annotation: {} protected{}, {} preferred, {} avoided\n", pods.annotated(),
               usage, pods.preferred(), pods.avoided());
  }
  for (const v1::PodAnnotationProblem& each : pods.annotation_problems()) {
    fmt::print("annotation WITHOUT EFFECT: {}, forestall.dev/{}: '{}': {}\n", printable(each.pod()),
               printable(each.annotation()), printable(each.value()), printable(each.problem()));
  }
  if (pods.annotation_problems_left_out() > 0) {
    fmt::print("annotations WITHOUT EFFECT: {} more\n", pods.annotation_problems_left_out());
  }
}

void print_pods(const v1::AgentStatus& status) {
  if (const auto& pods = status.pods(); pods.known() + pods.inferred() > 0) {
    fmt::print("pods: {} of known priority, {} with inferred facts", pods.known(), pods.inferred());
    fmt::print("{}\n", pods.may_be_critical() == 0
                           ? ""
                           : fmt::format(" ({} of them protected: may be critical)",
                                         pods.may_be_critical()));
  }
  print_annotations(status.pods());
  if (status.has_written_pods()) {
    const v1::WrittenPods& written = status.written_pods();
    fmt::print("pods from the API server: {}, confirmed {}, written {} ago\n", written.pods(),
               written.has_age_ns() ? span(written.age_ns()) + " ago" : "at an unknown time",
               span(written.written_ago_ns()));
    if (written.has_problem()) {
      fmt::print("pods NOT CURRENT: {}\n", printable(written.problem()));
    }
  }
  if (!status.has_pod_list()) return;
  const v1::PodListStatus& list = status.pod_list();
  fmt::print("podList: {}, {} pods{}{}\n", list.path(), list.pods(),
             list.has_age_ns() ? ", written " + span(list.age_ns()) + " ago" : "",
             list.stale() ? " (STALE)" : "");
  if (list.has_problem()) fmt::print("podList not in force: {}\n", list.problem());
}

void print_managed_oom(const v1::AgentStatus& status) {
  if (!status.has_managed_oom()) return;
  const v1::ManagedOomStatus& managed = status.managed_oom();
  fmt::print("managedOOM: {}, {} cgroups for swap, {} for memory pressure, {}\n",
             printable(managed.source()), managed.swap_size(), managed.pressure_size(),
             managed.has_read_ago_ns() ? "read " + span(managed.read_ago_ns()) + " ago"
                                       : std::string("not read yet"));
  if (!managed.problem().empty()) {
    fmt::print("managedOOM NOT CURRENT: {}\n", printable(managed.problem()));
  }
}

// As far as the configuration shows it: rules may also match no cgroup.
void print_unguarded(const v1::AgentStatus& status) {
  const auto& rules = status.config().workloads();
  const bool may_kill =
      std::ranges::any_of(rules, [](const auto& rule) { return !rule.protected_(); });
  if (!status.has_pods() || status.pods().known() + status.pods().inferred() > 0 || may_kill) {
    return;
  }
  fmt::print("NO CANDIDATES: {}\nAdd lines such as these to the configuration:\n{}\n",
             kNoCandidates, fmt::join(kWorkloadExample, "\n"));
}

void print_guard(const v1::AgentStatus& status) {
  if (!status.config().guard()) return;
  fmt::print("guard: on, for {} without the agent\n", span(status.config().guard_expiry_ns()));
  if (!status.has_kept_guard()) return;
  const std::string reason = printable(status.kept_guard().reason());
  switch (status.kept_guard().state()) {
    case v1::KeptGuard::KEPT: fmt::print("guard: stays when the agent ends ({})\n", reason); return;
    case v1::KeptGuard::NOT_KEPT: fmt::print("guard ENDS WITH THE AGENT: {}\n", reason); return;
    default: fmt::print("guard: unknown whether it stays when the agent ends: {}\n", reason);
  }
}

void print_head(const v1::AgentStatus& status) {
  fmt::print("forestall {}, pid {}, up {}, Linux {}\n", printable(status.version()), status.pid(),
             span(status.uptime_ns()), printable(status.kernel()));
  fmt::print("tier: {}; configuration: {}{}\n",
             word_of(*v1::DoctorReport::Tier_descriptor(), status.tier()),
             printable(status.config_origin()),
             status.config().dry_run() ? "; dry run: no signals are sent" : "");
  if (!status.has_next_evaluation_in_ns()) {
    fmt::print("no evaluation yet\n");
  } else {
    fmt::print("evaluations: {}\n", status.evaluations());
    fmt::print("kills: {}, in dry runs: {}, by the kernel: {}\n", status.kills(),
               status.dry_run_kills(), status.kernel_oom_kills());
    const std::int64_t left = status.next_evaluation_in_ns();
    if (left < 0) fmt::print("the next evaluation is overdue by {}\n", span(-left));
    if (left >= 0) fmt::print("the next evaluation is in {} at the latest\n", span(left));
  }
  print_guard(status);
  print_pods(status);
  print_managed_oom(status);
  print_unguarded(status);
  for (const v1::ConditionStatus& each : status.conditions()) {
    if (each.status()) fmt::print("condition: {}\n", printable(each.type()));
  }
}

bool has_values(const v1::AgentStatus& status, const v1::Threshold& threshold) {
  return std::ranges::any_of(status.thresholds(), [&](const v1::Evidence& each) {
    return google::protobuf::util::MessageDifferencer::Equals(each.threshold(), threshold);
  });
}

std::string because(const v1::NextVictim& next) {
  const v1::RankKey& key = next.candidate().key();
  std::string why = "its usage is unknown";
  if (key.measured() && key.request() <= 0) {
    why = fmt::format("it uses {} without a request", tables::human(Bytes{key.usage()}));
  } else if (key.measured() && key.exceeds_request()) {
    why = fmt::format("it is over its request by {}", tables::human(Bytes{key.over_request()}));
  } else if (key.measured()) {
    why = "every candidate is within its request";
  }
  if (next.has_before_next_by()) why += fmt::format(", ahead by {}", next.before_next_by());
  return why;
}

void print_next(const v1::AgentStatus& status) {
  if (status.next_victims_size() == 0) {
    const bool by_points = status.config().ranking() == "kernel";
    fmt::print("next: unknown, because {}\n",
               by_points ? "ranking: kernel ranks at the crossing only"
                         : "no hard memory threshold is near; see forestall rank");
  }
  for (const v1::NextVictim& next : status.next_victims()) {
    const auto& workload = next.candidate().sample().workload();
    if (!next.has_ranking_age_ns()) {
      fmt::print("next: unknown, because the candidates are not ranked yet\n");
    } else if (!next.has_candidate()) {
      fmt::print("next: none, because every candidate is protected, empty or already tried\n");
    } else {
      fmt::print("next: {}, because {}\n", shortened(workload.name(), 24), because(next));
    }
    fmt::print("  at {}, {}\n", shortened(next.subject(), 40), next.signal());
    if (next.has_held_back()) {
      fmt::print("  a kill is held back: {}\n",
                 word_of(*v1::Decision::Reason_descriptor(), next.held_back()));
    }
  }
}

// When the threshold is met, at the present growth.
std::string time_left(const v1::Evidence& evidence, const v1::ThresholdDistance& distance) {
  if (evidence.met()) return "MET";
  // The memory that killed workloads still hold makes up for what is missing.
  if (evidence.pending_release() > 0 && distance.headroom() < 0) return "releasing";
  return distance.has_time_to_threshold_ns() ? span(distance.time_to_threshold_ns()) : "-";
}

void print_thresholds(const v1::AgentStatus& status) {
  fmt::print("\nThresholds at the last evaluation\n");
  tables::Table table({"signal", "subject", "available", "threshold", "headroom", "in"});
  for (int i = 0; i < status.thresholds_size(); ++i) {
    const v1::Evidence& each = status.thresholds(i);
    // An agent of an earlier version does not send them.
    const bool has_distance = i < status.distances_size();
    const auto& distance =
        has_distance ? status.distances(i) : v1::ThresholdDistance::default_instance();
    table.add({each.threshold().signal(), shortened(each.subject(), 14),
               amount(each, each.available()), amount(each, each.limit()),
               has_distance ? amount(each, distance.headroom()) : "unknown",
               time_left(each, distance)});
  }
  for (const v1::Threshold& each : status.config().thresholds()) {
    if (status.thresholds_left_out() > 0 || has_values(status, each)) continue;
    const bool own = each.has_own_limits_of();
    table.add({each.signal(), own ? "ownLimit " + each.own_limits_of() : each.cgroup(),
               own ? "-" : "unknown", tables::limit_text(each), "-",
               own ? "no workload is near its own limit" : "see forestall signals"});
  }
  table.print();
  if (status.thresholds_left_out() > 0) {
    fmt::print("  and {} more\n", status.thresholds_left_out());
  }
}

void print_rulesets(const v1::AgentStatus& status) {
  if (status.rulesets_size() == 0) return;
  fmt::print("\nRulesets since the start\n");
  tables::Table table({"ruleset", "fired", "last", "detectors", "cgroups by outcome"});
  for (const v1::RulesetStatus& each : status.rulesets()) {
    std::string attempts;
    for (const v1::RulesetStatus::Attempts& outcome : each.attempts()) {
      attempts += fmt::format("{}{} {}", attempts.empty() ? "" : ", ", outcome.count(),
                              word_of(*v1::RulesetRun::Outcome_descriptor(), outcome.outcome()));
    }
    if (each.paused()) attempts += attempts.empty() ? "paused" : "; paused";
    table.add({shortened(each.name(), 24), fmt::format("{}", each.fired()),
               each.has_last_fired_ago_ns() ? span(each.last_fired_ago_ns()) + " ago" : "never",
               shortened(each.last_group(), 24), attempts});
  }
  table.print();
  if (status.rule_settings_not_undone() > 0) {
    fmt::print("  {} throttles or freezes could not be undone and are tried again; see the log\n",
               status.rule_settings_not_undone());
  }
}

constexpr int kReclaimRowsMax = 20;

void print_reclaimed(const v1::AgentStatus& status) {
  if (status.reclaimed_size() == 0) return;
  fmt::print("\nReclaimed by rulesets since the start\n");
  tables::Table table(
      {"ruleset", "cgroup", "reclaimed", "writes", "failed", "dropped", "back-offs"});
  for (int i = 0; i < std::min(status.reclaimed_size(), kReclaimRowsMax); ++i) {
    const v1::ReclaimedCgroup& each = status.reclaimed(i);
    table.add({shortened(each.ruleset(), 24),
               each.cgroup().empty() ? "all others" : shortened(each.cgroup(), 40),
               tables::human(Bytes{static_cast<std::int64_t>(each.reclaimed_bytes())}),
               fmt::format("{}", each.writes()), fmt::format("{}", each.failures()),
               fmt::format("{}", each.dropped()), fmt::format("{}", each.back_offs())});
  }
  table.print();
  if (status.reclaimed_size() > kReclaimRowsMax) {
    fmt::print("  and {} more; see -o json\n", status.reclaimed_size() - kReclaimRowsMax);
  }
}

constexpr int kQosRowsMax = 20;

void print_memory_qos(const v1::AgentStatus& status) {
  if (!status.has_memory_qos()) return;
  const v1::MemoryQosStatus& qos = status.memory_qos();
  fmt::print("\nMemory QoS ({})\n", qos.mode());
  if (!qos.problem().empty()) fmt::print("  {}\n", printable(qos.problem()));
  if (qos.unknown_pods() > 0) {
    fmt::print("  {} pods have no values: their facts are unknown\n", qos.unknown_pods());
  }
  std::uint64_t more = qos.values_left_out();
  std::uint64_t present = 0;
  tables::Table table({"for", "file", "present", "wanted", "state"});
  int rows = 0;
  for (const v1::MemoryQosValue& each : qos.values()) {
    if (each.state() == "equal" || (each.state() == "written" && each.reason().empty())) {
      ++present;
    } else if (rows++ < kQosRowsMax) {
      table.add({shortened(each.subject(), 40), each.file(),
                 each.has_present() ? each.present() : "unknown", each.wanted(),
                 each.reason().empty() ? each.state() : each.state() + ": " + each.reason()});
    } else {
      ++more;
    }
  }
  if (rows > 0) table.print();
  if (more > 0) fmt::print("  and {} more\n", more);
  if (present > 0) fmt::print("  {} values are present\n", present);
  if (qos.rewrites() > 0) {
    fmt::print("  values written again because another process had reset them: {}\n",
               qos.rewrites());
  }
  if (qos.lifts() > 0) {
    fmt::print("  memory.high raised because the cgroup made no progress: {}\n", qos.lifts());
  }
}

std::string stages_of(const v1::StatusDecision& decision) {
  std::string text;
  for (const v1::StageLength& each : decision.stages()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", each.stage(), span(each.length_ns()));
  }
  return text;
}

void print_decisions(const v1::AgentStatus& status) {
  if (status.decisions_size() == 0) return;
  fmt::print("\nLatest records\n");
  tables::Table table({"record", "action", "reason", "victim", "state", "stages"});
  for (const v1::StatusDecision& each : status.decisions()) {
    const std::string action = each.by_kernel()
                                   ? "kernel-oom-kill"
                                   : word_of(*v1::Decision::Action_descriptor(), each.action());
    const std::string state =
        each.has_state() ? word_of(*v1::KillProgress::State_descriptor(), each.state()) : "";
    table.add({fmt::format("{}", each.sequence()), action,
               word_of(*v1::Decision::Reason_descriptor(), each.reason()), each.victim(),
               each.dry_run() ? "dry run, not signalled" : state, stages_of(each)});
  }
  table.print();
}

// What took part in the longest stretch, the longest part first.
void print_loop(const v1::AgentStatus& status) {
  if (!status.has_loop()) return;  // an agent of an earlier version
  std::vector<std::pair<std::int64_t, std::string>> parts;
  for (const v1::LoopStretches::Work& each : status.loop().work()) {
    if (each.in_longest_ns() > 0) parts.emplace_back(-each.in_longest_ns(), each.work());
  }
  std::ranges::sort(parts);
  constexpr std::size_t kShown = 3;
  if (parts.size() > kShown) parts.resize(kShown);
  std::string text;
  for (const auto& [ns, work] : parts) {
    text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", printable(work), span(-ns));
  }
  fmt::print("\nloop: {} stretches of work, the longest {}{}\n", status.loop().stretches(),
             span(status.loop().longest_ns()), text);
}

void print_stages(const v1::AgentStatus& status) {
  fmt::print("\nStages of all kills so far\n");
  tables::Table table({"stage", "kills", "p50", "p90", "p99", "max"});
  for (const v1::StageSummary& each : status.stages()) {
    if (each.count() == 0) {
      table.add({each.stage(), "0", "-", "-", "-", "-"});
      continue;
    }
    table.add({each.stage(), fmt::format("{}", each.count()), span(each.p50_ns()),
               span(each.p90_ns()), span(each.p99_ns()), span(each.max_ns())});
  }
  table.print();
  const v1::Drops& drops = status.drops();
  fmt::print(
      "\nlost: {} lines of the log, {} BPF events, {} late OOM events, {} entries of recordings; "
      "BPF "
      "failures: {}\n",
      drops.log_lines(), drops.bpf_events(), drops.late_oom_events(), drops.recording_entries(),
      drops.bpf_failures());
  fmt::print("dropped: {} slow readers, {} viewers of the status page, {} messages to watchers\n",
             drops.slow_readers(), drops.live_viewers(), drops.watch_messages());
  fmt::print("{}", bpf_counter_text(status.bpf_counters()));
}

int print_managed_only(const v1::AgentStatus& status, OutputFormat format) {
  if (!status.has_managed_oom()) {
    fmt::print(stderr, "forestall status: the agent's managedOOM is off\n");
    return kExitFailed;
  }
  const v1::ManagedOomStatus& managed = status.managed_oom();
  fmt::print("{}", format == OutputFormat::json
                       ? messages::to_json(managed, messages::JsonStyle::pretty)
                       : managed_status_text(managed));
  return kExitOk;
}

}  // namespace

int run_status(const Options& options) {
  const auto status = agent_status(agent_socket(options));
  if (!status) {
    fmt::print(stderr, "forestall status: {}\n", printable(status.error().text()));
    return kExitFailed;
  }
  if (options.managed) return print_managed_only(*status, options.output);
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(*status, messages::JsonStyle::pretty));
    return kExitOk;
  }
  print_head(*status);
  if (status->has_next_evaluation_in_ns()) print_next(*status);
  print_thresholds(*status);
  print_rulesets(*status);
  print_reclaimed(*status);
  print_memory_qos(*status);
  if (status->has_container_pressure()) {
    fmt::print("\n{}", container_pressure_text(status->container_pressure()));
  }
  print_decisions(*status);
  print_stages(*status);
  print_loop(*status);
  return kExitOk;
}

}  // namespace forestall::cli
