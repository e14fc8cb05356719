// SPDX-License-Identifier: Apache-2.0
// The BPF features that BTF and the operator permit, on made-up kernels.
#include "kernel/bpf_plan.h"

#include <bpf/btf.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace forestall::kernel {
namespace {

// BTF of a kernel with the functions and tracepoints of our programs, except some.
class MadeUpKernel {
 public:
  MadeUpKernel() : types_(btf__new_empty()) {
    integer_ = btf__add_int(types_, "int", 4, BTF_INT_SIGNED);
    task_ = btf__add_ptr(types_, btf__add_struct(types_, "task_struct", 0));
  }

  MadeUpKernel& with(const BpfProgram& program) {
    const std::string target = program.target;
    if (program.hook == Hook::function) {
      const int prototype = btf__add_func_proto(types_, integer_);
      btf__add_func(types_, program.target, BTF_FUNC_STATIC, prototype);
    } else if (program.hook == Hook::tracepoint) {
      with_tracepoint(target, {task_});
    }
    return *this;
  }
  // A tracepoint with arguments of these types, after its private pointer.
  MadeUpKernel& with_tracepoint(const std::string& name, const std::vector<int>& arguments) {
    const int prototype = btf__add_func_proto(types_, 0);
    btf__add_func_param(types_, "", btf__add_ptr_void());
    for (const int argument : arguments) btf__add_func_param(types_, "", argument);
    const int pointer = btf__add_ptr(types_, prototype);
    btf__add_typedef(types_, ("btf_trace_" + name).c_str(), pointer);
    return *this;
  }
  MadeUpKernel& with_all_but(const std::set<std::string>& missing) {
    std::set<std::string> done;
    for (const BpfProgram& program : bpf_programs()) {
      if (!missing.contains(program.target) && done.insert(program.target).second) with(program);
    }
    return *this;
  }
  [[nodiscard]] int integer() const { return integer_; }
  [[nodiscard]] int task() const { return task_; }
  btf* release() { return std::exchange(types_, nullptr); }
  ~MadeUpKernel() { btf__free(types_); }

 private:
  // Type 0 is void. A pointer to it must exist before the prototype's parameters are added, so the
  // private pointer reuses the one to task_struct.
  [[nodiscard]] int btf__add_ptr_void() const { return task_; }

  btf* types_;
  int integer_ = 0;
  int task_ = 0;
};

FeatureSet off(Feature feature) {
  FeatureSet set;
  set.set(static_cast<std::size_t>(feature));
  return set;
}

std::set<Feature> planned(const BpfPlan& plan) {
  std::set<Feature> features;
  for (const auto& [feature, verdict] : plan) {
    if (verdict.state == FeatureState::in_use) features.insert(feature);
  }
  return features;
}

std::set<std::string> wanted(const BpfPlan& plan, const KernelTypes& types) {
  std::set<std::string> names;
  for (const BpfProgram& program : bpf_programs()) {
    if (should_load(plan, types, program)) names.insert(program.name);
  }
  return names;
}

TEST(BpfPlanTest, AKernelWithEverythingIsPlannedWhole) {
  const KernelTypes types(MadeUpKernel().with_all_but({}).release());
  const BpfPlan plan = plan_bpf(types, {});
  EXPECT_EQ(planned(plan).size(), bpf_features().size());
  EXPECT_EQ(wanted(plan, types).size(), bpf_programs().size());
}

TEST(BpfPlanTest, WithoutBtfEverythingIsAbsent) {
  const KernelTypes types(nullptr);
  EXPECT_FALSE(types.valid());
  for (const auto& [feature, verdict] : plan_bpf(types, {})) {
    EXPECT_EQ(verdict.state, FeatureState::absent) << to_string(feature);
    EXPECT_NE(verdict.evidence.find("/sys/kernel/btf/vmlinux"), std::string::npos);
  }
}

TEST(BpfPlanTest, AMissingFunctionCostsItsFeatureOnly) {
  const KernelTypes types(MadeUpKernel().with_all_but({"page_counter_try_charge"}).release());
  const BpfPlan plan = plan_bpf(types, {});
  EXPECT_EQ(planned(plan).size(), bpf_features().size() - 1);
  EXPECT_EQ(plan.at(Feature::bpf_charge).state, FeatureState::absent);
  EXPECT_EQ(plan.at(Feature::bpf_charge).evidence,
            "BTF of this kernel has no function page_counter_try_charge");
}

TEST(BpfPlanTest, AMissingTracepointIsNamed) {
  const KernelTypes types(MadeUpKernel().with_all_but({"mm_vmscan_kswapd_wake"}).release());
  const BpfPlan plan = plan_bpf(types, {});
  EXPECT_EQ(plan.at(Feature::bpf_reclaim).state, FeatureState::absent);
  EXPECT_EQ(plan.at(Feature::bpf_reclaim).evidence,
            "BTF of this kernel has no tracepoint mm_vmscan_kswapd_wake");
}

TEST(BpfPlanTest, OneOfTheOomPathsFunctionsIsEnough) {
  const std::set<std::string> two{"out_of_memory", "oom_kill_process"};
  const KernelTypes types(MadeUpKernel().with_all_but(two).release());
  const BpfPlan plan = plan_bpf(types, {});
  EXPECT_EQ(plan.at(Feature::bpf_oom_path).state, FeatureState::in_use);
  EXPECT_TRUE(wanted(plan, types).contains("mem_cgroup_out_of_memory"));
  EXPECT_FALSE(wanted(plan, types).contains("out_of_memory"));

  const KernelTypes none(
      MadeUpKernel()
          .with_all_but({"out_of_memory", "oom_kill_process", "mem_cgroup_out_of_memory"})
          .release());
  EXPECT_EQ(plan_bpf(none, {}).at(Feature::bpf_oom_path).state, FeatureState::absent);
}

TEST(BpfPlanTest, ForcedOffFeaturesAreNotTried) {
  const KernelTypes types(MadeUpKernel().with_all_but({}).release());
  const BpfPlan plan = plan_bpf(types, off(Feature::bpf_reclaim));
  EXPECT_EQ(plan.at(Feature::bpf_reclaim).state, FeatureState::forced_off);
  EXPECT_FALSE(wanted(plan, types).contains("memcg_reclaim_begin"));
  // PSI stalls also need the exits of threads, to drop their state.
  EXPECT_TRUE(wanted(plan, types).contains("forget_task"));

  for (const auto& [feature, verdict] : plan_bpf(types, off(Feature::bpf))) {
    EXPECT_EQ(verdict.state, FeatureState::forced_off) << to_string(feature);
  }
}

TEST(BpfPlanTest, ArgumentsOfTracepointsAreCountedWithoutThePrivateOne) {
  MadeUpKernel kernel;
  kernel.with_tracepoint("six", {kernel.integer(), kernel.integer()})
      .with_tracepoint("seven", {kernel.integer(), kernel.integer(), kernel.task()})
      .with_tracepoint("task", {kernel.task(), kernel.integer()});
  const KernelTypes types(kernel.release());
  EXPECT_EQ(types.tracepoint_arguments("six"), 2U);
  EXPECT_EQ(types.tracepoint_arguments("seven"), 3U);
  EXPECT_EQ(types.tracepoint_arguments("none"), 0U);
  EXPECT_TRUE(types.tracepoint_passes_pointer("task"));
  EXPECT_FALSE(types.tracepoint_passes_pointer("six"));
  EXPECT_FALSE(types.tracepoint_passes_pointer("none"));
}

}  // namespace
}  // namespace forestall::kernel
