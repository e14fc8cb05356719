// SPDX-License-Identifier: Apache-2.0
#include "exports/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

#include "exports/counter_table.h"
#include "exports/metric_labels.h"
#include "exports/process_metrics.h"
#include "exports/signal_metrics.h"

namespace forestall::exports {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// 1, 2 and 5 of each decade, about as many as in every client library.
bool is_reported(std::size_t bound) {
  return bound % 10 == 0 || bound % 10 == 3 || bound % 10 == 7;
}

prometheus::ClientMetric stage_metric(const StageHistograms& stages, Stage stage) {
  prometheus::ClientMetric metric;
  metric.label = {{"stage", std::string(to_string(stage))}};
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < StageHistograms::kBounds; ++i) {
    if (!is_reported(i)) continue;
    const Duration bound = StageHistograms::bounds()[i];
    // Counting goes on concurrently: a bucket must not be smaller than the previous one.
    last = std::max(last, stages.within(stage, bound));
    metric.histogram.bucket.push_back({last, std::chrono::duration<double>(bound).count()});
  }
  const StageSummary summary = stages.summary(stage);
  metric.histogram.sample_count = std::max(last, summary.count);
  metric.histogram.sample_sum = std::chrono::duration<double>(summary.sum).count();
  metric.histogram.bucket.push_back(
      {metric.histogram.sample_count, std::numeric_limits<double>::infinity()});
  return metric;
}

MetricFamily stage_family(const StageHistograms& stages) {
  MetricFamily family{"forestall_stage_duration_seconds",
                      "Duration of each stage of a kill: up to the signal since the previous "
                      "stage, the first since the last reading before the crossing; then since the "
                      "signal.",
                      MetricType::Histogram,
                      {}};
  for (std::size_t i = 0; i < kStageCount; ++i) {
    if (static_cast<Stage>(i) == Stage::reaction) continue;  // the sum of others
    family.metric.push_back(stage_metric(stages, static_cast<Stage>(i)));
  }
  return family;
}

MetricFamily reaction_family(const StageHistograms& stages) {
  MetricFamily family{"forestall_crossing_to_signal_at_most_seconds",
                      "Time from the last reading before a threshold was crossed to the first "
                      "signal, without grace periods.",
                      MetricType::Histogram,
                      {}};
  family.metric.push_back(stage_metric(stages, Stage::reaction));
  family.metric.back().label.clear();
  return family;
}

MetricFamily count_family(const char* name, const char* help, std::uint64_t count) {
  MetricFamily family{name, help, MetricType::Counter, {}};
  family.metric.emplace_back().counter.value = static_cast<double>(count);
  return family;
}

MetricFamily bpf_family(const BpfCounts& counts) {
  MetricFamily family{
      "forestall_bpf_events_total",
      "Events counted by the BPF programs, by BPF object, counter and kind of event "
      "or failure.",
      MetricType::Counter,
      {}};
  for (const BpfCounter& each : counts.all()) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"object", std::string(each.object)}, {"counter", std::string(each.counter)}};
    if (!each.kind.empty()) metric.label.push_back({"kind", std::string(each.kind)});
    metric.counter.value = static_cast<double>(each.value);
  }
  return family;
}

void add_drops(const DropCounts& drops, std::vector<MetricFamily>& all) {
  all.push_back(count_family("forestall_log_lines_dropped_total",
                             "Log lines dropped because their reader was too slow.",
                             drops.log_lines()));
  all.push_back(bpf_family(drops.bpf));
  all.push_back(count_family("forestall_bpf_counter_read_errors_total",
                             "Failed reads of the BPF programs' counters.", drops.bpf_read_errors));
  all.push_back(count_family("forestall_oom_events_late_total",
                             "OOM events received after the kill was recorded.",
                             drops.late_oom_events));
  all.push_back(count_family("forestall_workload_open_errors_total",
                             "Failed opens of known workloads, which keep their last values.",
                             drops.unread_workloads));
  all.push_back(count_family("forestall_watch_messages_dropped_total",
                             "Records and events that gRPC watch clients missed.", drops.dropped));
  all.push_back(count_family("forestall_recording_entries_lost_total",
                             "Recording entries without space in the queue.",
                             drops.recording_entries));
  all.push_back(count_family("forestall_live_viewers_dropped_total",
                             "Status-page clients disconnected because they were too slow.",
                             drops.live_viewers));
}

void add_grpc(const wire::GrpcCounts& counts, std::vector<MetricFamily>& all) {
  all.push_back(count_family("forestall_grpc_connections_total",
                             "Connections accepted at the gRPC socket.", counts.connections));
  all.push_back(count_family("forestall_grpc_connections_refused_total",
                             "Connections refused at the gRPC socket: not permitted, or too many.",
                             counts.refused));
  all.push_back(count_family("forestall_grpc_calls_total", "gRPC calls started.", counts.calls));
  all.push_back(count_family("forestall_grpc_slow_readers_total",
                             "gRPC calls ended because the client was too slow.",
                             counts.slow_readers));
}

void add_rulesets(const std::vector<RulesetCounts>& rulesets, std::vector<MetricFamily>& all) {
  MetricFamily fired{"forestall_ruleset_fired_total",
                     "Evaluations in which a group of detectors of the ruleset fired.",
                     MetricType::Counter,
                     {}};
  MetricFamily attempts{"forestall_ruleset_attempts_total",
                        "Cgroups and units that the ruleset acted on, or tried to, by outcome.",
                        MetricType::Counter,
                        {}};
  for (const RulesetCounts& each : rulesets) {
    prometheus::ClientMetric& count = fired.metric.emplace_back();
    count.label = {{"ruleset", each.name}};
    count.counter.value = static_cast<double>(each.fired);
    for (std::size_t i = 0; i < kRuleOutcomeCount; ++i) {
      prometheus::ClientMetric& metric = attempts.metric.emplace_back();
      metric.label = {{"ruleset", each.name},
                      {"outcome", std::string(to_string(static_cast<RuleOutcome>(i)))}};
      metric.counter.value = static_cast<double>(each.attempts[i]);
    }
  }
  if (!fired.metric.empty()) all.push_back(std::move(fired));
  if (!attempts.metric.empty()) all.push_back(std::move(attempts));
}

void add_hooks(const LoopCounts& counts, std::vector<MetricFamily>& all) {
  MetricFamily hooks{"forestall_prekill_hooks_total",
                     "Prekill hooks that ended or were not started, by outcome.",
                     MetricType::Counter,
                     {}};
  for (const HookState state :
       {HookState::succeeded, HookState::failed, HookState::timed_out, HookState::refused}) {
    prometheus::ClientMetric& metric = hooks.metric.emplace_back();
    metric.label = {{"outcome", std::string(to_string(state))}};
    metric.counter.value = static_cast<double>(counts.hooks[static_cast<std::size_t>(state)]);
  }
  all.push_back(std::move(hooks));
}

void add_reclaims(const std::vector<RulesetReclaimCounts>& reclaims,
                  std::vector<MetricFamily>& all) {
  MetricFamily bytes{"forestall_ruleset_reclaimed_bytes_total",
                     "Memory that reclaims by the ruleset freed, by cgroup.",
                     MetricType::Counter,
                     {}};
  MetricFamily writes{"forestall_ruleset_reclaims_total",
                      "Reclaims by the ruleset that are over, by cgroup.",
                      MetricType::Counter,
                      {}};
  MetricFamily failures{"forestall_ruleset_reclaim_failures_total",
                        "Reclaims by the ruleset that failed, by cgroup.",
                        MetricType::Counter,
                        {}};
  MetricFamily back_offs{"forestall_ruleset_reclaim_back_offs_total",
                         "Pauses of proactive reclaim because of pressure, by cgroup.",
                         MetricType::Counter,
                         {}};
  MetricFamily dropped{"forestall_ruleset_reclaims_dropped_total",
                       "Writes of proactive reclaim that were not begun in time, by cgroup.",
                       MetricType::Counter,
                       {}};
  for (const RulesetReclaimCounts& each : reclaims) {
    const auto add = [&](MetricFamily& family, double value) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"ruleset", each.ruleset},
                      {"cgroup", each.cgroup.empty() ? "others" : each.cgroup}};
      metric.counter.value = value;
    };
    add(bytes, static_cast<double>(each.reclaimed.count));
    add(writes, static_cast<double>(each.writes));
    add(failures, static_cast<double>(each.failures));
    add(back_offs, static_cast<double>(each.back_offs));
    add(dropped, static_cast<double>(each.dropped));
  }
  for (MetricFamily* family : {&bytes, &writes, &failures, &back_offs, &dropped}) {
    if (!family->metric.empty()) all.push_back(std::move(*family));
  }
}

void add_memory_qos(const MemoryQosReport& report, std::vector<MetricFamily>& all) {
  MetricFamily values{"forestall_memory_qos_values",
                      "Values of memory QoS by file and by what became of them.",
                      MetricType::Gauge,
                      {}};
  for (const MemoryQosFile file : kMemoryQosFiles) {
    for (const MemoryQosState state : kMemoryQosStates) {
      prometheus::ClientMetric& metric = values.metric.emplace_back();
      metric.label = {{"file", to_string(file)}, {"state", std::string(to_string(state))}};
      metric.gauge.value =
          static_cast<double>(std::ranges::count_if(report.values, [&](const MemoryQosValue& each) {
            return each.file == file && each.state == state;
          }));
    }
  }
  all.push_back(std::move(values));
  MetricFamily unknown{"forestall_memory_qos_unknown_pods",
                       "Pods without known facts, of which memory QoS has no values.",
                       MetricType::Gauge,
                       {}};
  unknown.metric.emplace_back().gauge.value = static_cast<double>(report.unknown_pods);
  all.push_back(std::move(unknown));
  if (report.mode != MemoryQosMode::enforce) return;
  MetricFamily rewrites{
      "forestall_memory_qos_rewrites_total",
      "Values of memory QoS written again because another process had reset them.",
      MetricType::Counter,
      {}};
  rewrites.metric.emplace_back().counter.value = static_cast<double>(report.rewrites);
  all.push_back(std::move(rewrites));
  MetricFamily lifts{"forestall_memory_qos_lifts_total",
                     "Values of memory.high raised because the cgroup made no progress.",
                     MetricType::Counter,
                     {}};
  lifts.metric.emplace_back().counter.value = static_cast<double>(report.lifts);
  all.push_back(std::move(lifts));
}

void add_container_pressure(const ContainerPressureReport& report, std::vector<MetricFamily>& all) {
  const auto add = [&all](const char* name, const char* help, MetricType type, double value) {
    MetricFamily family{name, help, type, {}};
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
    all.push_back(std::move(family));
  };
  MetricFamily pressed{
      "forestall_container_pressure_containers",
      "Containers under memory pressure or with a lifted memory.high, by cause and stage of the "
      "response.",
      MetricType::Gauge,
      {}};
  for (const PressureCause cause : kPressureCauses) {
    for (const PressureStage stage :
         {PressureStage::none, PressureStage::reclaim, PressureStage::lift, PressureStage::evict,
          PressureStage::kill}) {
      prometheus::ClientMetric& metric = pressed.metric.emplace_back();
      metric.label = {{"cause", std::string(to_string(cause))},
                      {"stage", std::string(to_string(stage))}};
      metric.gauge.value =
          static_cast<double>(std::ranges::count_if(report.pressed, [&](const PressedCgroup& each) {
            return each.cause == cause && each.stage == stage;
          }));
    }
  }
  all.push_back(std::move(pressed));
  add("forestall_container_pressure_lifted", "Containers whose memory.high is lifted.",
      MetricType::Gauge,
      static_cast<double>(std::ranges::count_if(
          report.pressed, [](const PressedCgroup& each) { return each.lifted_from.has_value(); })));
  add("forestall_container_pressure_watched", "Containers whose memory pressure is watched.",
      MetricType::Gauge, static_cast<double>(report.watched));
  add("forestall_container_pressure_not_watched",
      "Containers beyond the limit of watched ones, unreadable, or refused.", MetricType::Gauge,
      static_cast<double>(report.not_watched));
  add("forestall_container_pressure_unread",
      "Watched containers whose last reading failed: their pressure is unknown.", MetricType::Gauge,
      static_cast<double>(report.unread));
  add("forestall_container_pressure_reclaimed_bytes_total",
      "Bytes reclaimed from containers under memory pressure.", MetricType::Counter,
      static_cast<double>(report.reclaimed.count));
  add("forestall_container_pressure_lifts_total",
      "Lifts of memory.high of containers under memory pressure.", MetricType::Counter,
      static_cast<double>(report.lifts));
  add("forestall_container_pressure_restores_total",
      "Values of memory.high restored after a lift for memory pressure.", MetricType::Counter,
      static_cast<double>(report.restores));
}

void add_work(const LoopWorkTally& tally, std::vector<MetricFamily>& all) {
  const auto seconds = [](Duration duration) {
    return std::chrono::duration<double>(duration).count();
  };
  MetricFamily longest{"forestall_loop_longest_stretch_seconds",
                       "Longest time that the loop's thread worked without returning to its event "
                       "loop.",
                       MetricType::Gauge,
                       {}};
  longest.metric.emplace_back().gauge.value = seconds(tally.longest());
  MetricFamily most{"forestall_loop_work_longest_seconds",
                    "Longest time that the loop's thread spent on one kind of work without "
                    "returning to its event loop.",
                    MetricType::Gauge,
                    {}};
  MetricFamily total{"forestall_loop_work_seconds_total",
                     "Time that the loop's thread spent on each kind of work.",
                     MetricType::Counter,
                     {}};
  for (std::size_t i = 0; i < kLoopWorkCount; ++i) {
    const auto work = static_cast<LoopWork>(i);
    const LoopWorkTally::Summary summary = tally.summary(work);
    prometheus::ClientMetric metric;
    metric.label = {{"work", std::string(to_string(work))}};
    metric.gauge.value = seconds(summary.longest);
    most.metric.push_back(metric);
    metric.counter.value = seconds(summary.total);
    total.metric.push_back(metric);
  }
  for (MetricFamily* family : {&longest, &most, &total}) all.push_back(std::move(*family));
}

void add_guard_lists(const LoopCounts& counts, std::vector<MetricFamily>& all) {
  MetricFamily late{"forestall_guard_lists_late_total",
                    "Preparations of the guard's lists that took so long that lists expired.",
                    MetricType::Counter,
                    {}};
  late.metric.emplace_back().counter.value = static_cast<double>(counts.guard_lists_late);
  MetricFamily age{"forestall_guard_lists_preparation_seconds",
                   "Time since the running preparation of the guard's lists began; 0 without one.",
                   MetricType::Gauge,
                   {}};
  const std::int64_t since = counts.guard_lists_since_ns;
  const Duration lasts = SystemClock().now() - from_ns(since);
  age.metric.emplace_back().gauge.value =
      since == 0 ? 0 : std::chrono::duration<double>(lasts).count();
  for (MetricFamily* family : {&late, &age}) all.push_back(std::move(*family));
}

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

}  // namespace

class Metrics::Families {
 public:
  Families(std::string_view version, Tier tier, Recorders recorders)
      : recorders_(recorders),
        evaluations_("forestall_evaluations_total",
                     "Evaluations, each one decision of the policy, by wake source.",
                     {label_of<WakeSource>("wake")}),
        decisions_("forestall_decisions_total",
                   "Recorded decisions. A decision that repeats the previous one is not recorded; "
                   "each eviction counts separately.",
                   {label_of<Action>("action"), label_of<Reason>("reason")}, decision_occurs),
        kills_("forestall_kills_total",
               "Kills by final state, without dry runs. A stuck kill counts again if its memory is "
               "freed later.",
               {label_of<KillState>("state")}, kill_occurs),
        dry_run_kills_("forestall_dry_run_kills_total",
                       "Kills that a dry run did not carry out, by state: in-flight if the victim "
                       "would have been signalled, failed if the kill would have been refused.",
                       {label_of<KillState>("state")}, dry_run_kill_occurs),
        kills_by_class_("forestall_workload_kills_total",
                        "Workloads killed, by class of the workload. Dry runs do not count.",
                        {label_of<VictimClass>("class")}, victim_occurs),
        kernel_kills_("forestall_kernel_oom_kills_total",
                      "Kills by the kernel's OOM killer, by allocation constraint, by the reason "
                      "why the agent had not acted before, and by whether the victim was predicted "
                      "(right, wrong, none: no prediction).",
                      {constraint_label(), label_of<Inaction>("inaction"),
                       label_of<ForecastResult>("predicted")},
                      kernel_kill_occurs),
        kernel_kills_by_class_(
            "forestall_workload_kernel_oom_kills_total",
            "Processes killed by the kernel's OOM killer, by class of their workload.",
            {label_of<VictimClass>("class")}),
        evictions_("kubelet_evictions", "Cumulative number of pod evictions by eviction signal",
                   {eviction_signals()}),
        eviction_signals_(eviction_signals().values),
        freed_(counter("forestall_freed_bytes_total", "Memory freed by killed victims, in bytes.")),
        left_behind_(counter("forestall_left_behind_bytes_total",
                             "Memory that stayed charged to victims after their last process "
                             "exited and after an attempt to reclaim it, in bytes.")),
        last_reload_(gauge("forestall_config_last_reload_successful",
                           "Whether the last load of the configuration succeeded, 1 or 0; after "
                           "0 the previous configuration remains in force.")),
        reloaded_at_(gauge("forestall_config_last_reload_timestamp_seconds",
                           "Time of the last load of the configuration, at the start or by a "
                           "reload, successful or not, in seconds since the epoch.")) {
    auto& conditions = prometheus::BuildGauge()
                           .Name("forestall_condition")
                           .Help("State of the node condition, 1 while it is reported.")
                           .Register(registry_);
    for (std::size_t i = 0; i < kConditions.size(); ++i) {
      conditions_[i] = &conditions.Add({{"type", std::string(to_string(kConditions[i]))}});
    }
    prometheus::BuildGauge()
        .Name("forestall_build_info")
        .Help("Version of Forestall and tier of kernel facilities in use.")
        .Register(registry_)
        .Add({{"version", std::string(version)}, {"tier", std::string(to_string(tier))}})
        .Set(1);
    record_reload(true);
  }

  void record_reload(bool succeeded) {
    last_reload_.Set(succeeded ? 1 : 0);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    reloaded_at_.Set(std::chrono::duration<double>(now).count());
  }

  void count(const Record& record) {
    if (record.oom_kill) {
      kernel_kills_by_class_.count({place_of(victim_class_at(record.oom_kill->event.path))});
      kernel_kills_.count({place_of_constraint(record.oom_kill->event.constraint),
                           place_of(record.oom_kill->inaction),
                           place_of(forecast_result(*record.oom_kill))});
    } else if (record.outcome) {
      count_outcome(*record.outcome);
      count_victim(record);
    } else {
      decisions_.count({place_of(record.decision.action), place_of(record.decision.reason)});
    }
  }

  void passed(const PolicyPass& pass) {
    evaluations_.count({place_of(pass.record.observation.wake.source)});
  }

  void evaluated(const Evaluation& evaluation) {
    for (std::size_t i = 0; i < kConditions.size(); ++i) {
      conditions_[i]->Set(evaluation.decision.conditions[i].status ? 1 : 0);
    }
    amounts_.put(evaluation.decision.evidence);
    next_evaluation_ = to_ns(evaluation.next);
  }

  [[nodiscard]] std::string text() const {
    std::vector<MetricFamily> all = registry_.Collect();
    for (const prometheus::Collectable* each :
         std::initializer_list<const prometheus::Collectable*>{&amounts_, &process_}) {
      for (MetricFamily& family : each->Collect()) all.push_back(std::move(family));
    }
    for (const CounterTable* each :
         {&evaluations_, &decisions_, &kills_, &dry_run_kills_, &kills_by_class_, &kernel_kills_,
          &kernel_kills_by_class_, &evictions_}) {
      all.push_back(each->collect());
    }
    if (recorders_.stages != nullptr) {
      all.push_back(stage_family(*recorders_.stages));
      all.push_back(reaction_family(*recorders_.stages));
    }
    if (recorders_.drops != nullptr) add_drops(*recorders_.drops, all);
    if (recorders_.grpc != nullptr) add_grpc(*recorders_.grpc, all);
    if (recorders_.work != nullptr) add_work(*recorders_.work, all);
    if (recorders_.counts != nullptr) {
      add_hooks(*recorders_.counts, all);
      add_guard_lists(*recorders_.counts, all);
      add_reclaims(recorders_.counts->reclaims.all(), all);
    }
    if (recorders_.memory_qos) {
      if (const auto report = recorders_.memory_qos()) add_memory_qos(*report, all);
    }
    if (recorders_.container_pressure) {
      if (const auto report = recorders_.container_pressure()) {
        add_container_pressure(*report, all);
      }
    }
    if (recorders_.board != nullptr) add_rulesets(recorders_.board->rulesets(), all);
    // Sorted for human readers; Prometheus does not require it.
    std::ranges::sort(all, {}, &MetricFamily::name);
    for (MetricFamily& family : all) {
      std::ranges::sort(family.metric,
                        [](const auto& a, const auto& b) { return a.label < b.label; });
    }
    return prometheus::TextSerializer().Serialize(all);
  }

  [[nodiscard]] bool alive(MonotonicTime now) const {
    const std::int64_t next = next_evaluation_;
    return next != kNever && now <= from_ns(next) + kSlack;
  }

 private:
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add({});
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add({});
  }

  void count_outcome(const Outcome& outcome) {
    (outcome.dry_run ? dry_run_kills_ : kills_).count({place_of(outcome.state)});
    if (outcome.dry_run || outcome.state != KillState::released) return;
    if (outcome.freed.count > 0) freed_.Increment(static_cast<double>(outcome.freed.count));
    if (outcome.left_behind) {
      left_behind_.Increment(static_cast<double>(outcome.left_behind->total.count));
    }
  }

  // Each victim once; a stuck kill has two outcomes.
  void count_victim(const Record& record) {
    const Outcome& outcome = *record.outcome;
    const bool again = std::erase(stuck_, record.sequence) > 0;
    if (outcome.state == KillState::stuck) {
      if (stuck_.size() == kStuckMax) stuck_.erase(stuck_.begin());
      stuck_.push_back(record.sequence);
    }
    const bool ended = outcome.state == KillState::released || outcome.state == KillState::stuck;
    if (again || !ended || outcome.dry_run) return;
    kills_by_class_.count({place_of(victim_class_at(outcome.victim.path))});
    if (outcome.victim.kind == WorkloadKind::pod) count_eviction(record);
  }

  // As kubelet counts the pods that it ended.
  void count_eviction(const Record& record) {
    if (record.decision.evictions.empty()) return;
    const auto place =
        std::ranges::find(eviction_signals_, record.decision.evictions.front().metric_signal);
    if (place == eviction_signals_.end()) return;
    evictions_.count({static_cast<std::size_t>(place - eviction_signals_.begin())});
  }

  // Few kills are stuck at the same time; with more than this, one may count twice.
  static constexpr std::size_t kStuckMax = 64;

  Recorders recorders_;
  prometheus::Registry registry_;
  CounterTable evaluations_;
  CounterTable decisions_;
  CounterTable kills_;
  CounterTable dry_run_kills_;
  CounterTable kills_by_class_;
  CounterTable kernel_kills_;
  CounterTable kernel_kills_by_class_;
  CounterTable evictions_;
  std::vector<std::string> eviction_signals_;
  std::vector<std::uint64_t> stuck_;  // sequences of records; the loop's
  prometheus::Counter& freed_;
  prometheus::Counter& left_behind_;
  prometheus::Gauge& last_reload_;
  prometheus::Gauge& reloaded_at_;
  std::array<prometheus::Gauge*, kConditions.size()> conditions_{};
  SignalMetrics amounts_{Metrics::kSubjectsMax};
  ProcessMetrics process_;
  std::atomic<std::int64_t> next_evaluation_{kNever};
};

Metrics::Metrics(std::string_view version, Tier tier, Recorders recorders)
    : families_(std::make_unique<Families>(version, tier, recorders)) {}

Metrics::~Metrics() = default;

void Metrics::write(const Record& record) {
  families_->count(record);
}

void Metrics::record_reload(bool succeeded) {
  families_->record_reload(succeeded);
}

void Metrics::evaluated(const Evaluation& evaluation) {
  families_->evaluated(evaluation);
}

void Metrics::passed(const PolicyPass& pass) {
  families_->passed(pass);
}

std::string Metrics::text() const {
  return families_->text();
}

bool Metrics::alive(MonotonicTime now) const {
  return families_->alive(now);
}

}  // namespace forestall::exports
