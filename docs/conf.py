"""How the site is built: `make docs`, or with everything at full size `make docs-full`."""

import os
import sys
from pathlib import Path

import superarm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_extensions"))

from figures import figures  # noqa: E402 - it stands beside this file

project = "Superarm"
author = copyright = "The Superarm authors"  # noqa: A001 - Sphinx names it so
version = release = superarm.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "arguments",
    "generated",
    "mathml",
    "repository",
]
exclude_patterns = ["examples/**", "**/GALLERY_HEADER.md", "_build", "**/README.txt", "templates"]
nitpicky = False  # names in single backticks that are no objects are plain code
default_role = "py:obj"
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # types stand beside every argument: docs/_extensions/arguments.py
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "Superarm"
html_static_path = ["_static"]
html_css_files = ["superarm.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_sidebars = {"index": [], "gallery/*": [], "changelog": []}
html_theme_options = {
    "github_url": "https://github.com/superarm/superarm",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "logo": {"text": "Superarm"},
    "show_nav_level": 1,
    "show_toc_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "article_header_start": ["breadcrumbs"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

FULL = os.environ.get("SUPERARM_FULL") == "1"
os.environ.setdefault("SUPERARM_FULL", "0")
sphinx_gallery_conf = {
    "examples_dirs": ["examples/tutorials", "examples/gallery"],
    "gallery_dirs": ["tutorials", "gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "min_reported_time": 0,
    "matplotlib_animations": False,
    "abort_on_example_error": False,
    "only_warn_on_example_error": True,  # and warnings are errors: all of them are told at once
    "image_scrapers": (figures,),
    "capture_repr": (),
    "reference_url": {},
    "nested_sections": False,
}
