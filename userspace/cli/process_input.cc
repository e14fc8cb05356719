// SPDX-License-Identifier: Apache-2.0
#include "cli/process_input.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "policy/oom_selection.h"
#include "sources/oom_scene.h"

namespace forestall::cli {

Result<OpenedProcesses> open_processes(const kernel::CgroupTree& tree, const FeatureSet& disabled) {
  OpenedProcesses opened;
  if (!has(disabled, Feature::bpf) && !has(disabled, Feature::bpf_tasks)) {
    auto scan = kernel::TaskScan::load();
    if (scan) {
      opened.reading.calibration = (*scan)->calibration();
      opened.source = sources::bpf_process_source(std::move(*scan));
    } else {
      opened.reading.bpf_failure = scan.error().text();
    }
  }
  if (!opened.source) opened.source = TRY(sources::proc_process_source(tree));
  opened.reading.source = opened.source->name();
  return opened;
}

Result<BrokenTie> predict(sources::ProcessSource& processes, OomScene& scene) {
  BrokenTie answer;
  const std::vector<std::size_t> tied = policy::tied_for_first(scene);
  if (!tied.empty()) answer.order_known = TRY(sources::order_ties(processes, scene, tied));
  answer.prediction = policy::predict(scene);
  return answer;
}

tables::ProcessShow show_here() {
  tables::ProcessShow show{Bytes{sysconf(_SC_PAGESIZE)}};
  winsize window{};
  if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) {
    show.columns = window.ws_col;
  }
  return show;
}

}  // namespace forestall::cli
