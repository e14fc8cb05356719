// SPDX-License-Identifier: Apache-2.0
// forestall-top: what `forestall top` runs. A program of its own, because the agent keeps all code
// it maps in memory, and ncurses is none of its business.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>

#include "cli/config_options.h"
#include "cli/exit_code.h"
#include "top/app.h"

namespace forestall::top {
namespace {

void add_options(CLI::App& app, cli::Options& options, TopOptions& top) {
  static const std::map<std::string, cli::OutputFormat> kFormats{{"text", cli::OutputFormat::text},
                                                                 {"json", cli::OutputFormat::json}};
  CLI::Option* once = app.add_flag("--once", top.once, "Print one picture, without a terminal");
  app.add_option("-o,--output", options.output, "With --once: for people or for programs")
      ->transform(CLI::CheckedTransformer(kFormats))
      ->option_text("text|json")
      ->needs(once);
  app.add_option("--interval", top.interval,
                 "Time between two pictures, 100ms to 1m (1s); with --once what pressure is "
                 "measured over");
  app.add_option("--ranking", top.ranking,
                 "Whose order: kubelet, kernel or kubelet+growth (as the configuration has it)");
  app.add_option("--color", top.color,
                 "auto (not with NO_COLOR), always or never; as far as the terminal has them")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->option_text("auto|always|never");
  app.add_flag("--ascii", top.ascii, "Draw with ASCII characters only");
  app.add_flag("--no-mouse", top.no_mouse, "Leave the mouse to the terminal");
  app.add_flag("--no-agent", top.without_agent, "Do not ask a running agent");
  app.add_option("--run-dir", options.run_directory,
                 "The agent's, where it listens at forestall.sock");
  app.add_option("--socket", options.socket,
                 "Where the agent serves gRPC (apiSocket), if that is elsewhere");
  app.add_option("--disable-feature", options.disabled,
                 "Do without a kernel facility, by the name `doctor` lists it under");
  app.add_option("--cgroup-mount", options.cgroup_mount,
                 "Where the host's /sys/fs/cgroup is mounted");
  cli::add_config_options(app, options);
}

int run(int argc, char** argv) {
  cli::Options options;
  TopOptions top;
  CLI::App app("The node's memory, live: thresholds, pressure, and who would go first.",
               "forestall top");
  add_options(app, options, top);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failure) {
    return app.exit(failure) == 0 ? cli::kExitOk : cli::kExitUsage;
  }
  return run_top(options, top);
}

}  // namespace
}  // namespace forestall::top

int main(int argc, char** argv) {
  // Our own code has no exceptions; what the libraries throw (bad_alloc) ends here, behind the
  // destructor that puts the terminal back.
  try {
    return forestall::top::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "forestall top: %s\n", failure.what());
    return forestall::cli::kExitFailed;
  }
}
