"""Makes the dashboard's pictures: screenshots and the animation of the README, and the coastlines on its map."""
