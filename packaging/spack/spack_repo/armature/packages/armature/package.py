"""Spack recipe of the command `armature`. docs/install.md shows its use."""

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class Armature(CargoPackage):
    """The command armature: starts MPI programs, submits and watches jobs on a cluster, plans and
    runs workflows, and draws reports of a run."""

    homepage = "https://example.org/armature"
    git = "https://example.org/armature"

    license("MIT OR Apache-2.0")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("mpi", default=True, description="Build armature-probe and armature-workflow")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    with when("+mpi"):
        depends_on("mpi")
        depends_on("hwloc@2:")
        depends_on("pkgconfig", type="build")
        # libclang reads the header of the MPI library.
        depends_on("llvm +clang", type="build")

    build_directory = "launch"
    build_args = ["--locked"]

    def setup_build_environment(self, env):
        if self.spec.satisfies("+mpi"):
            env.set("MPICC", self.spec["mpi"].mpicc)
            env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)

    @run_after("install")
    def install_mpi_programs(self):
        if self.spec.satisfies("+mpi"):
            with working_dir(self.stage.source_path):
                for directory in ("launch/probe", "apps/workflow"):
                    cargo("install", "--locked", "--root", self.prefix, "--path", directory)

    @run_after("install")
    def install_help(self):
        armature = Executable(self.prefix.bin.armature)
        armature("man", "--dir", self.prefix.share.man.man1)
        completions = (
            ("bash", bash_completion_path(self.prefix), "armature"),
            ("zsh", zsh_completion_path(self.prefix), "_armature"),
            ("fish", fish_completion_path(self.prefix), "armature.fish"),
        )
        for shell, directory, name in completions:
            mkdirp(directory)
            with open(directory / name, "w") as file:
                armature("completions", shell, output=file)

    def test_version(self):
        """Checks that the command starts."""
        output = Executable(self.prefix.bin.armature)("--version", output=str)
        assert output.startswith("armature ")
