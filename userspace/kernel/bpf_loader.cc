// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <forestall_bpf.skel.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/unique_fd.h"
#include "kernel/attach_types.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"
#include "kernel/relocation_types.h"

namespace forestall::kernel {
namespace {

std::string errno_text(int code) {
  return std::strerror(code);
}

struct LoadAttempt {
  Skeleton skeleton;
  std::string refusal;  // set if there is no skeleton
};

LoadAttempt try_load(const BpfPlan& plan, const KernelTypes& types,
                     const RelocationTypes& relocation_types) {
  const BpfLog log;
  const AttachTypes attach_types(types);
  LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = relocation_types.path());
  Skeleton skeleton(forestall_bpf__open_opts(&options));
  if (!skeleton) return {nullptr, "open: " + errno_text(errno)};
  for (const BpfProgram& program : bpf_programs()) {
    bpf_program* found = bpf_object__find_program_by_name(skeleton->obj, program.name);
    if (found == nullptr) return {nullptr, "object without program " + std::string(program.name)};
    bpf_program__set_autoload(found, should_load(plan, types, program));
  }
  // The kernel may refuse a map with a timer, so only the timer feature creates it.
  bpf_map__set_autocreate(skeleton->maps.usage_clocks,
                          plan.at(Feature::bpf_timer).state == FeatureState::in_use);
  // (gfp, order, memcg) since 7.2; see bpf/lib/compat.bpf.h.
  skeleton->rodata->reclaim_passes_memcg =
      types.tracepoint_arguments("mm_vmscan_memcg_reclaim_begin") >= 3;
  skeleton->rodata->mark_victim_passes_task = types.tracepoint_passes_pointer("mark_victim");
  skeleton->rodata->fill_bytes_per_us = fastest_fill_bytes_per_us();
  skeleton->rodata->page_shift = page_shift();
  const int failure = forestall_bpf__load(skeleton.get());
  if (failure == 0) return {std::move(skeleton), {}};
  std::string refusal = summarize_bpf_log(log.text());
  if (refusal.empty()) refusal = errno_text(-failure);
  return {nullptr, "load: " + refusal};
}

// Adds features to the accepted set, group by group. Keeps the last object that loaded, so the
// accepted features load together.
class Search {
 public:
  Search(BpfPlan& plan, const KernelTypes& types, const RelocationTypes& relocation_types)
      : plan_(plan), types_(types), relocation_types_(relocation_types), accepted_(plan) {
    for (auto& [feature, verdict] : accepted_) verdict.state = FeatureState::absent;
  }

  // Tries those of the group that are still planned, together; true if they were accepted. The
  // refusal of a single feature is its verdict.
  bool accept(std::span<const Feature> group) {
    BpfPlan trial = accepted_;
    std::vector<Feature> planned;
    for (const Feature feature : group) {
      if (plan_.at(feature).state != FeatureState::in_use) continue;
      trial.at(feature).state = FeatureState::in_use;
      planned.push_back(feature);
    }
    if (planned.empty()) return true;
    LoadAttempt attempt = try_load(trial, types_, relocation_types_);
    if (attempt.skeleton) {
      accepted_ = std::move(trial);
      skeleton_ = std::move(attempt.skeleton);
      return true;
    }
    if (planned.size() == 1) plan_.at(planned[0]) = {FeatureState::refused, attempt.refusal};
    return false;
  }

  Skeleton take() { return std::move(skeleton_); }

 private:
  BpfPlan& plan_;
  const KernelTypes& types_;
  const RelocationTypes& relocation_types_;
  BpfPlan accepted_;
  Skeleton skeleton_;
};

constexpr std::array kFunctions{Feature::bpf_charge, Feature::bpf_stall, Feature::bpf_oom_path};

// Why the kernel refuses an empty program on entry to the function. Empty: it accepts one.
std::string refusal_of_empty_program(const KernelTypes& types, const char* function) {
  constexpr std::array kInstructions{
      bpf_insn{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0},
      bpf_insn{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY,
              .attach_btf_id = types.function_id(function));
  const UniqueFd loaded(bpf_prog_load(BPF_PROG_TYPE_TRACING, "trial", "GPL", kInstructions.data(),
                                      kInstructions.size(), &options));
  if (loaded) return {};
  return "load: a program on " + std::string(function) + ": " + errno_text(errno);
}

// A host that refuses fentry usually refuses all of it. Each whole object that is tried in vain
// costs as much as all accepted features together.
void refuse_by_trial(BpfPlan& plan, const KernelTypes& types) {
  for (const Feature feature : kFunctions) {
    BpfVerdict& verdict = plan.at(feature);
    if (verdict.state != FeatureState::in_use) continue;
    const auto first = std::ranges::find_if(bpf_programs(), [&](const BpfProgram& program) {
      return program.feature == feature && offers(types, program.hook, program.target);
    });
    if (first == bpf_programs().end()) continue;
    const std::string refusal = refusal_of_empty_program(types, first->target);
    if (!refusal.empty()) verdict = {FeatureState::refused, refusal};
  }
}

// Loads the permitted features and records the refused ones in `plan`.
Skeleton load_what_is_permitted(BpfPlan& plan, const KernelTypes& types) {
  if (plan.at(Feature::bpf).state != FeatureState::in_use) return nullptr;
  refuse_by_trial(plan, types);
  const RelocationTypes relocation_types(types, forestall_bpf__elf_bytes);
  Search search(plan, types, relocation_types);
  if (search.accept(bpf_features())) return search.take();

  if (!search.accept(std::array{Feature::bpf})) {
    for (auto& [feature, verdict] : plan) {
      const bool tried =
          verdict.state == FeatureState::in_use || verdict.state == FeatureState::refused;
      if (tried && feature != Feature::bpf) verdict = {FeatureState::refused, "bpf is refused"};
    }
    return nullptr;
  }
  // The usual refusal concerns all of fentry, so the other features are tried together first.
  constexpr std::array kTracepoints{Feature::bpf_timer, Feature::bpf_reclaim, Feature::bpf_oom,
                                    Feature::bpf_cgroups};
  if (!search.accept(kTracepoints)) {
    for (const Feature& each : kTracepoints) search.accept({&each, 1});
  }
  for (const Feature& each : kFunctions) search.accept({&each, 1});
  return search.take();
}

// The skeleton's pointer to a program's link; the skeleton destroys the link.
bpf_link** link_of(const forestall_bpf& skeleton, std::string_view program) {
  const bpf_object_skeleton& list = *skeleton.skeleton;
  for (int i = 0; i < list.prog_cnt; ++i) {
    if (program == list.progs[i].name) return list.progs[i].link;
  }
  return nullptr;
}

void detach_feature(const forestall_bpf& skeleton, Feature feature) {
  for (const BpfProgram& program : bpf_programs()) {
    if (program.feature != feature) continue;
    bpf_link** link = link_of(skeleton, program.name);
    bpf_link__destroy(*link);
    *link = nullptr;
  }
}

// Attaches all programs of one feature, or none: half a pair would sum stalls that never end.
void attach_feature(const forestall_bpf& skeleton, Feature feature, BpfVerdict& verdict) {
  const BpfLog log;
  std::string hooks;
  for (const BpfProgram& program : bpf_programs()) {
    if (!serves(program, feature)) continue;
    const bpf_program* found = bpf_object__find_program_by_name(skeleton.obj, program.name);
    bpf_link** link = link_of(skeleton, program.name);
    if (program.hook == Hook::none || bpf_program__fd(found) < 0 || *link != nullptr) continue;
    *link = attach(found);
    if (*link == nullptr) {
      verdict = {FeatureState::refused,
                 "attach " + std::string(program.target) + ": " + errno_text(errno)};
      detach_feature(skeleton, feature);
      return;
    }
    hooks += (hooks.empty() ? "attached to " : ", ") + std::string(program.target);
  }
  if (hooks.empty()) hooks = "loaded";
  verdict.evidence = verdict.evidence.empty() ? hooks : hooks + "; " + verdict.evidence;
}

}  // namespace

void SkeletonDeleter::operator()(forestall_bpf* skeleton) const {
  forestall_bpf__destroy(skeleton);
}

LoadedBpf load_bpf(const FeatureSet& disabled, const KernelTypes& types) {
  BpfPlan plan = plan_bpf(types, disabled);
  LoadedBpf loaded{load_what_is_permitted(plan, types), {}};
  for (auto& [feature, verdict] : plan) {
    if (loaded.skeleton && verdict.state == FeatureState::in_use) {
      attach_feature(*loaded.skeleton, feature, verdict);
    }
    loaded.reports.push_back({feature, verdict.state, verdict.evidence});
  }
  return loaded;
}

}  // namespace forestall::kernel
